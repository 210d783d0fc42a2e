"""What the page on architecture promises: no import cycle, a docstring in each module, a reason for each dependency."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "warmstart"
FILES = sorted(SOURCE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

sys.path.insert(0, str(ROOT / "docs"))

import hooks  # noqa: E402


def lazy_imports(path: Path, modules: set[str]) -> Iterator[str]:
    """Modules that a file may import by name: the texts of a file that calls `import_module`, whole or as a prefix."""
    text = path.read_text(encoding="utf-8")
    if "import_module" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            # `import_module(f"warmstart.tasks.{name}")` may import any module of that package.
            prefix = str(node.values[0].value)
            if prefix.startswith("warmstart.") and prefix.endswith("."):
                yield from (name for name in modules if name.startswith(prefix) and "." not in name[len(prefix) :])
        elif isinstance(node, ast.Constant) and node.value in modules:
            yield str(node.value)


def import_graph() -> dict[str, set[str]]:
    """What each module imports: at its top, inside functions, for type checking, and by name."""
    graph = grimp.build_graph("warmstart", cache_dir=None)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    for path in FILES:
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        imports[name] |= set(lazy_imports(path, graph.modules)) - {name}
    return imports


def shortest_cycle(imports: dict[str, set[str]]) -> list[str]:
    """The shortest chain of imports that leads back to where it began, or none."""
    cycles = []
    for start in imports:
        before: dict[str, str] = {}
        wave = [start]
        while wave and start not in before:
            wave = [other for name in wave for other in imports[name] if before.setdefault(other, name) is name]
        if start in before:
            chain = [start, before[start]]
            while chain[-1] != start:
                chain.append(before[chain[-1]])
            cycles.append(chain[::-1])
    return min(cycles, key=lambda cycle: (len(cycle), cycle), default=[])


def test_no_import_cycle():
    assert " → ".join(shortest_cycle(import_graph())) == ""


def test_a_planted_cycle_is_found():
    imports = {"a": {"b"}, "b": {"c", "e"}, "c": {"d"}, "d": {"b", "a"}, "e": set()}
    assert shortest_cycle(imports) == ["b", "c", "d", "b"]


def test_every_module_begins_with_a_sentence():
    docstrings = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in FILES}
    without = [path for path, text in docstrings.items() if not text.partition("\n")[0].endswith((".", "!", "?", ":"))]
    assert [str(path.relative_to(SOURCE)) for path in without] == []


def test_the_page_shows_every_package_and_every_rule():
    packages, rules = hooks.packages(), hooks.imports()
    names = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    names |= {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert sorted(name for name in names if not re.search(rf"^\| `{name}/?` \|", packages, re.M)) == []
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    assert [contract["name"] for contract in contracts if contract["name"] not in rules] == []


def test_every_dependency_has_a_line():
    extras = PROJECT["project"]["optional-dependencies"].values()
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.match(r"[\w-]+", line)[0] for line in lines}
    page = (ROOT / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8")
    assert sorted(name for name in names if f"`{name}`" not in page) == []
