"""Reading YAML safely, knowing the line of every key and refusing a key said twice."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import yaml

from warmstart.errors import RecipeError

LARGEST = 1 << 20
DEEPEST = 32
MOST_VALUES = 50_000


class _Loader(yaml.SafeLoader):
    """Reads safely, and only `true` and `false` as such: plain YAML takes a key `on`, or a column `no`, for them."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
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
    _walk(node, "", lines, path)
    return values, lines


def _text(path: Path) -> str:
    """The text of a recipe; what is no file of a recipe's size is not opened at all."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RecipeError(f"{path}: found a folder, pipe or device, expected a recipe (.yaml) or a data file")
        if found.st_size > LARGEST:
            raise RecipeError(f"{path}: found {found.st_size:,} bytes, a recipe has at most {LARGEST:,}")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such file; give the path of a recipe (.yaml) or of a data file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read as UTF-8 text: {error}") from None


def _check_size(text: str, path: Path) -> None:
    """Refuse, while only reading along, what a few lines can blow up: aliases, endless nesting, endless lists."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise RecipeError(f"{path}:{line}: found the alias *{event.anchor}; a recipe has none: write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST or count > MOST_VALUES:
            raise RecipeError(
                f"{path}:{line}: too much for a recipe; expected at most {MOST_VALUES:,} values, {DEEPEST} levels deep"
            )


def parse_value(text: str) -> Any:
    """A value typed on the command line: a number, `true`, `false`, `null`, `[a, b]`, `{text: 2}`, else text as it is.

    Plain YAML would read `|` as nothing and `no` as false, which are a separator and a column's name.
    """
    if text in _WORDS:
        return _WORDS[text]
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


_WORDS = {"true": True, "false": False, "null": None}


def _walk(node: Any, prefix: str, lines: dict[str, int], path: Path) -> None:
    """Note the line of every key below a mapping node; those in a list have its place in their name."""
    if isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _walk(value, f"{prefix}{number}.", lines, path)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        line = key.start_mark.line + 1
        if name in lines:
            raise RecipeError(f"{path}:{line}: {name} is said twice, first on line {lines[name]}; keep one")
        lines[name] = line
        _walk(value, f"{name}.", lines, path)
