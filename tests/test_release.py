"""What a release needs: a README that works elsewhere, a complete archive, and versions that agree."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from types import ModuleType, SimpleNamespace

import pytest
import yaml

import warmstart
from built_site import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
RELATIVE = r"\]\((?![a-z]+:|#)"
NOT_PACKED = {".gitignore", ".pre-commit-config.yaml", "pyproject.toml"}
"""Hatchling packs the last by itself; the others are of use in a checkout only."""


@pytest.fixture
def hatch_build(monkeypatch):
    """The build's own module, without hatchling, which only builds have."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = SimpleNamespace
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_takes_two_minutes():
    above, reference, _ = README.partition("\n## Reference\n")
    assert reference
    assert len(re.sub(r"```.*?```", "", above, flags=re.S).split()) < 500


def test_the_links_of_the_readme_work_on_the_package_index(hatch_build):
    assert re.search(RELATIVE, README)
    text = hatch_build.for_the_index(README, "https://example.org/warmstart/")
    assert re.findall(RELATIVE, text) == []
    assert "](https://example.org/warmstart/blob/main/docs/results/kill.md)" in text
    assert "](https://example.org/warmstart/raw/main/docs/images/small-data.svg)" in text
    assert "{.norun}" not in text


def test_without_an_address_the_readme_has_no_link_that_leads_nowhere(hatch_build):
    text = hatch_build.for_the_index(README, None)
    assert re.findall(RELATIVE, text) == []
    assert "100 of 100 kills" in text
    hook = SimpleNamespace(root=str(ROOT))
    metadata = {}
    hatch_build.ReadmeHook.update(hook, metadata)
    assert metadata["readme"]["text"] == hatch_build.for_the_index(
        README, PROJECT["project"].get("urls", {}).get("Source")
    )


def test_the_archive_has_all_that_its_tests_need():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("no checkout: this is an unpacked archive")
    include = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    names = {line.partition("/")[0] for line in tracked.stdout.splitlines()} - NOT_PACKED
    assert sorted(name for name in names if not (f"/{name}" in include or name.endswith(".md"))) == []
    assert "/*.md" in include


def test_the_image_is_built_from_all_that_a_build_reads():
    copied = re.findall(r"^COPY (.*) \./\S*$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    build = PROJECT["tool"]["hatch"]
    assert build["metadata"]["hooks"] == {"custom": {}}  # which is hatch_build.py, and reads the README
    read = ["pyproject.toml", "hatch_build.py", "README.md", *PROJECT["project"]["license-files"]]
    read += [*build["build"]["targets"]["wheel"]["packages"], build["version"]["path"]]
    names = " ".join(copied).split()
    assert [name for name in read if name not in names and name.partition("/")[0] not in names] == []


def test_versions_and_pythons_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == warmstart.__version__.partition(".dev")[0]
    assert f"\n## {citation['version']} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    for name in ("pythons", "wheel"):
        workflow = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
        assert set(re.findall(r"Python :: (3\.\d+)", classifiers)) <= set(re.findall(r'"(3\.\d+)"', workflow))


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_or_template_is_valid_yaml(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "workflows":
        assert content["jobs"]
        assert content["permissions"] == {"contents": "read"}
