"""Every fault the code can name is in the one table, and every one in the table can be named by the code."""

import ast
from pathlib import Path

import pytest

import warmstart
from warmstart.data.fault_kinds import FAULT_KINDS

SOURCE = Path(warmstart.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "fault_kinds.py"]
POSITIONS = {"DataError": 1, "Fault": 1, "Pattern": 0, "add_row": 0, "add_rows": 0, "add_table": 0, "add": 0}
"""The position of the kind among a call's arguments."""


def kinds_in(path: Path) -> list[tuple[int, str, ast.expr | None]]:
    """Line, called name and kind of every call that names a fault."""
    calls = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in POSITIONS:
                kind = node.args[POSITIONS[name]] if len(node.args) > POSITIONS[name] else None
                calls.append((node.lineno, name, kind))
    return calls


@pytest.mark.parametrize(
    "path", [path for path in FILES if SOURCE / "data" in path.parents], ids=lambda path: str(path.relative_to(SOURCE))
)
def test_no_refusal_of_a_reader_is_without_a_kind(path):
    for line, name, kind in kinds_in(path):
        if name in {"DataError", "Fault"}:
            assert kind is not None, f"{path.name}:{line}: {name} without a kind"
            if isinstance(kind, ast.Constant):
                assert kind.value in FAULT_KINDS, f"{path.name}:{line}: {kind.value!r} is not in the table"


def test_every_kind_of_the_table_is_used():
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    assert [name for name in FAULT_KINDS if f'"{name}"' not in text] == []


def test_every_finding_is_of_a_kind_in_the_table():
    used = {
        kind.value
        for path in FILES
        for _, name, kind in kinds_in(path)
        # Elsewhere, tables on the screen have an `add_row` too.
        if (name in {"DataError", "Fault"} or (name != "add" and SOURCE / "data" in path.parents))
        and isinstance(kind, ast.Constant)
    }
    assert sorted(used - set(FAULT_KINDS)) == []
    assert len(used) > 50


def test_a_kind_says_what_it_means():
    for kind in FAULT_KINDS.values():
        assert kind.severity in {"error", "warning", "note"}
        assert len(kind.meaning) > 10
        assert not kind.meaning.endswith(".")
