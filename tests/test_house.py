"""The code keeps the rules of the house, and a planted breach of each is caught."""

import pytest

from house import LIMITS, House


@pytest.fixture(scope="module")
def house():
    return House()


@pytest.mark.parametrize("key", LIMITS)
def test_the_house_keeps_its_rules(house, key):
    count = house.counts()[key]
    assert count <= LIMITS[key], f"{key}: {count}, at most {LIMITS[key]}\n" + "\n".join(house.details(key)[:40])


def test_planted_breaches_are_caught(tmp_path):
    source = tmp_path / "warmstart"
    source.mkdir()
    (source / "__init__.py").write_text("__all__ = []\n")
    for number in range(9):
        (source / f"room{number}.py").write_text("\n")
    body = "".join(f"    x = {line}\n" for line in range(70))
    (source / "a.py").write_text(
        f"from typing import Any\n\nclass Row: pass\n\ndef long(a: Any, b, c, d, e, f, g):\n{body}"
    )
    (source / "b.py").write_text(
        "import importlib\n\nclass Row: pass\n\ndef f():\n    importlib.import_module('warmstart.c')\n"
    )
    (source / "c.py").write_text(
        "def g():\n    from warmstart import b\n    found = [told for told in b.f()]\n" + "\n" * 400
    )
    assert House(source).counts() == {
        "cycles": 1,
        "root_modules": 13,
        "any_per_100": pytest.approx(0.4, abs=0.1),
        "wide_functions": 1,
        "long_functions": 1,
        "long_files": 1,
        "doubled_names": 1,
        "vague_names": 2,
    }
