"""The state of the house in one JSON line: cycles, size, types and names in `src/warmstart`; run by `make house`."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "warmstart"
MOST_PARAMETERS, LONGEST_FUNCTION, LONGEST_FILE = 6, 60, 400
VAGUE = {"found", "told", "said"}
"""Names that say nothing of what they hold."""
LIMITS = {
    "cycles": 0,
    "root_modules": 8,
    "any_per_100": 2.0,
    "wide_functions": 15,
    "long_functions": 0,
    "long_files": 0,
    "doubled_names": 0,
    "vague_names": 0,
}
"""The most there may be of each."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class House:
    """Every module of the package, parsed once; each property lists where a rule is broken."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self.files = sorted(source.rglob("*.py"))
        self.texts = {path: path.read_text(encoding="utf-8") for path in self.files}
        self.trees = {path: ast.parse(text) for path, text in self.texts.items()}
        self.modules = {self._module(path): path for path in self.files}

    def counts(self) -> dict[str, float]:
        """What is found, under the keys of `LIMITS`."""
        return {
            "cycles": len(self.cycles),
            "root_modules": len([path for path in self.files if path.parent == self.source]),
            "any_per_100": round(100 * sum(self.any_names.values()) / self.lines, 2),
            "wide_functions": len(self.wide_functions),
            "long_functions": len(self.long_functions),
            "long_files": len(self.long_files),
            "doubled_names": len(self.doubled_names),
            "vague_names": len(self.vague_names),
        }

    def details(self, key: str) -> list[str]:
        """Where a rule is broken, one line each."""
        return list(getattr(self, {"any_per_100": "worst_any"}.get(key, key), []))

    @property
    def lines(self) -> int:
        """Lines of code, comments and blank lines included."""
        return sum(text.count("\n") for text in self.texts.values())

    @cached_property
    def any_names(self) -> Counter[Path]:
        """How often each file says `Any`."""
        counts: Counter[Path] = Counter()
        for path, text in self.texts.items():
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            counts[path] = sum(token.type == tokenize.NAME and token.string == "Any" for token in tokens)
        return counts

    @property
    def worst_any(self) -> list[str]:
        """The files that say `Any` most often."""
        return [f"{self._name(path)}: {count}" for path, count in self.any_names.most_common(15)]

    @cached_property
    def wide_functions(self) -> list[str]:
        """Functions of too many parameters, outside of the command line and the public surface."""
        public = self._public_names()
        wide = []
        for path, owner, function in self._functions():
            parts = path.relative_to(self.source).parts
            if parts[0] in ("cli", "api.py", "estimators") or {owner, function.name} & public:
                continue
            arguments = function.args
            names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            count = len([name for name in names if name not in ("self", "cls")])
            if count > MOST_PARAMETERS:
                wide.append(f"{self._name(path)}:{function.lineno}: {function.name} has {count} parameters")
        return wide

    @cached_property
    def long_functions(self) -> list[str]:
        """Functions of too many lines."""
        long = []
        for path, _, function in self._functions():
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > LONGEST_FUNCTION:
                long.append(f"{self._name(path)}:{function.lineno}: {function.name} has {length} lines")
        return long

    @cached_property
    def long_files(self) -> list[str]:
        """Files of too many lines."""
        counts = {path: text.count("\n") for path, text in self.texts.items()}
        return [f"{self._name(path)}: {count} lines" for path, count in counts.items() if count > LONGEST_FILE]

    @cached_property
    def doubled_names(self) -> list[str]:
        """Classes of one name in several places."""
        places: dict[str, list[str]] = {}
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(f"{self._name(path)}:{node.lineno}")
        return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]

    @cached_property
    def vague_names(self) -> list[str]:
        """Variables, parameters and attributes whose name is one of `VAGUE`."""
        vague = []
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                name = _bound_name(node)
                if name in VAGUE:
                    vague.append(f"{self._name(path)}:{node.lineno}: {name}")  # type: ignore[attr-defined]
        return vague

    @cached_property
    def cycles(self) -> list[str]:
        """Modules that import each other, inside functions, for types and by `import_module` included."""
        graph = {name: set(self._imports(path)) - {name} for name, path in self.modules.items()}
        return [" → ".join(sorted(component)) for component in _components(graph) if len(component) > 1]

    def _imports(self, path: Path) -> Iterator[str]:
        for node in ast.walk(self.trees[path]):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.modules)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield from [name for name in (inner, node.module) if name in self.modules][:1]
            elif isinstance(node, ast.Constant) and node.value in self.modules and "import_module" in self.texts[path]:
                yield str(node.value)  # a module's name as text, for `import_module`

    def _functions(self) -> Iterator[tuple[Path, str, Function]]:
        """Every function with its file and the class it belongs to."""
        for path, tree in self.trees.items():
            owners = {
                id(child): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body
            }
            for node in ast.walk(tree):
                if isinstance(node, Function):
                    yield path, owners.get(id(node), ""), node

    def _public_names(self) -> set[str]:
        """What the package exports: these signatures are made for people who type them."""
        for node in self.trees[self.source / "__init__.py"].body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return set(ast.literal_eval(node.value))
        return set()

    def _module(self, path: Path) -> str:
        parts = path.relative_to(self.source.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.source))


def _bound_name(node: ast.AST) -> str:
    """The name that a node gives a value to, if it does."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    return node.arg if isinstance(node, ast.arg) else ""


def _components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components (Tarjan 1972), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    components.append(set(stack[cut:]))
                    del stack[cut:]
            elif other not in index:
                index[other] = low[other] = len(index)
                stack.append(other)
                work.append((other, iter(sorted(graph[other]))))
            elif other in stack:
                low[node] = min(low[node], index[other])
    return components


if __name__ == "__main__":
    print(json.dumps(House().counts()))
