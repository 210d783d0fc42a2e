"""The page on architecture is true, and the code keeps its rules: imports, docstrings, length of functions."""

import ast
import re
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "warmstart"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST = 60


def allowed() -> dict[str, set[str] | None]:
    """What each module may import by the page's table; None stands for everything."""
    section = PAGE.read_text(encoding="utf-8").partition("## Who imports whom")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.M)
    assert rows[0] == ("module", "may import")
    words = {"everything": None, "–": set()}
    return {name: words[cell] if cell in words else set(cell.split(", ")) for name, cell in rows[2:]}


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """What each top-level module imports of the others, inside functions and for types included."""
    graph = grimp.build_graph("warmstart", cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in graph.modules - {"warmstart"}:
        top = module.split(".")[1]
        found.setdefault(top, set())
        for other in graph.find_modules_directly_imported_by(module):
            name = other.split(".")[1] if "." in other else "warmstart"
            if name != top:
                found[top].add(name)
    return found


def test_every_module_has_a_row(imported):
    assert sorted(allowed()) == sorted(imported)


def test_every_import_is_allowed_and_every_allowed_one_is_used(imported):
    for name, may in allowed().items():
        if may is not None:
            assert sorted(imported[name]) == sorted(may), f"{name}: the code on the left, the page on the right"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_says_what_it_is(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert text.partition("\n")[0].endswith((".", "!", "?", ":")), "a module begins with a sentence"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            above = lines[min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 2].strip()
            excused = above.startswith("# Long because")
            assert length <= LONGEST or excused, f"{path.name}:{node.lineno}: {node.name} has {length} lines"


def test_every_dependency_has_a_line():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for some in project["optional-dependencies"].values() for one in some)]
    page = (PAGE.parent / "dependencies.md").read_text(encoding="utf-8")
    names = {re.match(r"[\w-]+", one)[0] for one in wanted}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
