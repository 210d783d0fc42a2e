"""Reading YAML safely, with the line of every key, refusing a key that occurs twice."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from warmstart.errors import RecipeError

Yaml: TypeAlias = Any
"""A value of a recipe; pydantic checks what it is."""

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 50_000


class _Loader(yaml.SafeLoader):
    """Reads safely, with `true` and `false` as the only booleans: plain YAML also reads `on` and `no` as such."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_yaml(path: Path) -> tuple[dict[str, Yaml], dict[str, int]]:
    """The mapping in a YAML file, and the line of each dotted key."""
    text = _text(path)
    try:
        _check_size(text, path)
        node = yaml.compose(text, Loader=_Loader)
        values = yaml.load(text, Loader=_Loader)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: not YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(values, dict):
        raise RecipeError(f"{path}: found {type(values).__name__}, expected `key: value` lines such as `model: …`")
    lines: dict[str, int] = {}
    if node is not None:
        _collect_lines(node, "", lines, path)
    return values, lines


def _text(path: Path) -> str:
    """The text of a recipe; what is not a regular file, or too large for a recipe, is not opened at all."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RecipeError(f"{path}: found a folder, pipe or device, expected a recipe (.yaml) or a data file")
        if status.st_size > MAX_BYTES:
            raise RecipeError(f"{path}: found {status.st_size:,} bytes, expected at most {MAX_BYTES:,} for a recipe")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such file; give the path of a recipe (.yaml) or of a data file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read as UTF-8 text: {error}") from None


def _check_size(text: str, path: Path) -> None:
    """Refuse, before anything is built, what a few lines can blow up: aliases, endless nesting, endless lists."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise RecipeError(f"{path}:{line}: found the alias *{event.anchor}; recipes have none: write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or count > MAX_VALUES:
            raise RecipeError(
                f"{path}:{line}: too large for a recipe; "
                f"expected at most {MAX_VALUES:,} values, {MAX_DEPTH} levels deep"
            )


def parse_value(text: str) -> Yaml:
    """A value typed on the command line: a number, `true`, `false`, `null`, `[a, b]`, `{text: 2}`, else text as it is.

    Plain YAML would read the separator `|` as nothing and a column named `no` as false.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    if text[:1] not in {"[", "{", '"', "'"}:
        return text
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.YAMLError as error:
        raise RecipeError(f"{text}: cannot be read as a list, a mapping or quoted text: {error}") from None


_CONSTANTS = {"true": True, "false": False, "null": None}


def _collect_lines(node: yaml.Node, prefix: str, lines: dict[str, int], path: Path) -> None:
    """Note the line of every key below a node; the name of a key in a list contains the index of its item."""
    if isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _collect_lines(value, f"{prefix}{number}.", lines, path)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        line = key.start_mark.line + 1
        if name in lines:
            raise RecipeError(f"{path}:{line}: {name} is set twice, first on line {lines[name]}; keep one")
        lines[name] = line
        _collect_lines(value, f"{name}.", lines, path)
