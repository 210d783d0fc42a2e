"""Every fault the code can name is in the one table, and every one in the table can be named by the code."""

import ast
from pathlib import Path

import pytest

import warmstart
from warmstart.data.fault_kinds import KINDS

SOURCE = Path(warmstart.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "faults.py"]
PLACES = {"DataError": 1, "Fault": 1, "Pattern": 0, "see": 0, "see_all": 0, "see_table": 0, "add": 0}
"""Where the kind stands among a call's arguments."""


def kinds_in(path: Path) -> list[tuple[int, str, ast.expr | None]]:
    """Line, called name and kind of every call that names a fault."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in PLACES:
                given = node.args[PLACES[name]] if len(node.args) > PLACES[name] else None
                found.append((node.lineno, name, given))
    return found


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name == "data"], ids=lambda path: path.name)
def test_no_refusal_of_a_reader_is_without_a_kind(path):
    for line, name, given in kinds_in(path):
        if name in {"DataError", "Fault"}:
            assert given is not None, f"{path.name}:{line}: {name} without a kind"
            if isinstance(given, ast.Constant):
                assert given.value in KINDS, f"{path.name}:{line}: {given.value!r} is not in the table"


def test_every_kind_of_the_table_is_used():
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    assert [name for name in KINDS if f'"{name}"' not in text] == []


def test_every_finding_is_of_a_kind_in_the_table():
    used = {
        given.value
        for path in FILES
        for _, name, given in kinds_in(path)
        if name != "add" and isinstance(given, ast.Constant)
    }
    assert sorted(used - set(KINDS)) == []
    assert len(used) > 50


def test_a_kind_says_what_it_means():
    for kind in KINDS.values():
        assert kind.severity in {"error", "warning", "note"}
        assert len(kind.meaning) > 10
        assert not kind.meaning.endswith(".")
