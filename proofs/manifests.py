"""The Kubernetes files against schemas: Kubernetes' own by `kubernetes-validate`, KubeRay's fields by a table of them.

`kubernetes-validate` brings the schemas of Kubernetes' own kinds, and lives in an environment of its own;
KUBERNETES_VALIDATE names its python. It has none of KubeRay's kinds, and no package with them was found: their
fields are in `RAY_JOB`, a list kept by hand, and the pod templates in them are validated as those of a Deployment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from common import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
VENV = Path.home() / ".cache" / "warmstart-proofs" / "kubernetes-validate"
POD = "a pod template"
RAY_CLUSTER: dict[str, Any] = {
    "rayVersion": str,
    "authOptions": {"mode": str},
    "headGroupSpec": {"rayStartParams": dict, "template": POD},
    "workerGroupSpecs": [
        {
            "groupName": str,
            "replicas": int,
            "minReplicas": int,
            "maxReplicas": int,
            "rayStartParams": dict,
            "template": POD,
        }
    ],
}
RAY_JOB: dict[str, Any] = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str},
    "spec": {
        "entrypoint": str,
        "shutdownAfterJobFinishes": bool,
        "backoffLimit": int,
        "submitterPodTemplate": POD,
        "rayClusterSpec": RAY_CLUSTER,
    },
}
"""The fields that the files use of KubeRay's API, with their types; any other is an error.

All were read in the types and the reference of KubeRay's API, but for `authOptions`: the versions read are older than
it, and it is taken from KubeRay's guide alone.
"""
CHECK = (
    "import json, sys, kubernetes_validate as kv\n"
    "wrong = []\n"
    "for item in json.load(sys.stdin):\n"
    "    try: kv.validate(item, sys.argv[1], strict=True)\n"
    "    except kv.ValidationError as error: wrong.append(item['kind'] + ': ' + str(error).partition(chr(10))[0])\n"
    "print(json.dumps(wrong))\n"
)
KUBERNETES = "1.30"


def documents() -> list[dict[str, Any]]:
    """All documents of all files."""
    paths = sorted(FOLDER.glob("*.yaml"))
    return [item for path in paths for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def wrong_fields(value: Any, schema: Any, where: str) -> Iterator[str]:
    """What a value has that a table of fields has not, or has otherwise."""
    if schema == POD:
        return
    if isinstance(schema, Mapping):
        if not isinstance(value, Mapping):
            yield f"{where}: found {type(value).__name__}, expected a mapping"
            return
        for name, item in value.items():
            if name in schema:
                yield from wrong_fields(item, schema[name], f"{where}.{name}")
            else:
                yield f"{where}.{name}: no such field"
    elif isinstance(schema, list):
        for number, item in enumerate(value):
            yield from wrong_fields(item, schema[0], f"{where}[{number}]")
    elif type(value) is not schema:
        yield f"{where}: found {type(value).__name__}, expected {schema.__name__}"


def pod_templates(value: Any, schema: Any) -> Iterator[dict[str, Any]]:
    """The pod templates in a value, by a table of fields."""
    if schema == POD:
        yield value
    elif isinstance(schema, Mapping):
        for name, below in schema.items():
            if name in value:
                yield from pod_templates(value[name], below)
    elif isinstance(schema, list):
        for item in value:
            yield from pod_templates(item, schema[0])


def as_deployment(template: Mapping[str, Any]) -> dict[str, Any]:
    """A Deployment with this pod template: what is valid in the one is valid in the other."""
    # A Deployment's pods always start again; a RayJob's submitter does not, so that is no error here.
    spec = {name: value for name, value in template["spec"].items() if name != "restartPolicy"}
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "template"},
        "spec": {"selector": {"matchLabels": labels}, "template": {**template, "spec": spec}},
    }


def validator() -> str:
    """A python that has `kubernetes-validate`; leaves, saying why, where it cannot be installed."""
    if named := os.environ.get("KUBERNETES_VALIDATE"):
        return named
    python = VENV / "bin" / "python"
    if not (VENV / "bin" / "kubernetes-validate").is_file():
        try:
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True, capture_output=True)
            install = [str(python), "-m", "pip", "install", "-q", "kubernetes-validate", "setuptools<81"]
            subprocess.run(install, check=True, capture_output=True, timeout=1800)
        except (subprocess.SubprocessError, OSError) as error:
            sys.exit(f"kubernetes-validate cannot be installed ({error}); set KUBERNETES_VALIDATE, or leave it out")
    return str(python)


def check_manifests() -> dict[str, Any]:
    """How many documents there are, and what is wrong with them."""
    items = documents()
    jobs = [item for item in items if item["kind"] == "RayJob"]
    templates = [template for job in jobs for template in pod_templates(job, RAY_JOB)]
    own = [item for item in items if item["kind"] != "RayJob"]
    checked = [*own, *map(as_deployment, templates)]
    done = subprocess.run(
        [validator(), "-c", CHECK, KUBERNETES], input=json.dumps(checked), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    wrong = json.loads(done.stdout.splitlines()[-1]) + [
        error for job in jobs for error in wrong_fields(job, RAY_JOB, "RayJob")
    ]
    return {"documents": len(items), "ray_jobs": len(jobs), "pod_templates": len(templates), "wrong": wrong}
