"""Every default of fit, every rule and every guide names the measurement behind it, or says that there is none."""

import ast
from pathlib import Path

import pytest
import yaml

from warmstart.options import fields_of
from warmstart.recipe import HeadOptions, LayerOptions, TrainingOptions, WindowOptions

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = yaml.safe_load((ROOT / "docs" / "evidence.yaml").read_text(encoding="utf-8"))
GROUPS = {"window": WindowOptions, "layers": LayerOptions, "head": HeadOptions, "training": TrainingOptions}


def test_every_default_has_its_evidence():
    fields = {f"{group}.{name}" for group, options in GROUPS.items() for name in fields_of(options)}
    assert fields - set(EVIDENCE["defaults"]) == set()
    assert set(EVIDENCE["defaults"]) - fields == set()


def test_every_rule_has_its_evidence():
    files = [ROOT / "src" / "warmstart" / "pipeline" / name for name in ("rules.py", "long_texts.py")]
    bodies = [ast.parse(file.read_text(encoding="utf-8")).body for file in files]
    targets = [node.targets[0] for body in bodies for node in body if isinstance(node, ast.Assign)]
    names = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    assert set(EVIDENCE["rules"]) == {name for name in names if name.isupper() and not name.startswith("_")}


def test_every_guide_has_its_evidence():
    assert set(EVIDENCE["advice"]) == {path.stem for path in (ROOT / "docs" / "howto").glob("*.md")}


@pytest.mark.parametrize("part", ["defaults", "rules", "advice"])
def test_what_is_named_exists(part):
    missing = []
    for name, said in EVIDENCE[part].items():
        if isinstance(said, str):
            assert said.strip(), name
            continue
        assert set(said) == {"page", "row", "says"}, name
        page = ROOT / "docs" / "results" / f"{said['page']}.md"
        lines = page.read_text(encoding="utf-8").splitlines() if page.is_file() else []
        # A claim may be followed by its source.
        if not any(line.startswith((f"| {said['row']} |", f"| {said['row']} (")) for line in lines):
            missing.append(f"{name}: {page.name} has no row {said['row']!r}")
    assert missing == []
