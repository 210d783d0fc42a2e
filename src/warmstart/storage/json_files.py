"""Reading JSON from a folder that nobody vouches for: bounded in size and depth, each key once, finite numbers only."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from warmstart.errors import WarmstartError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""Any JSON value."""
JsonObject: TypeAlias = dict[str, Any]
"""A parsed JSON object; what its values are is checked where they are read."""

MEGABYTE = 1 << 20
MAX_DEPTH = 64
"""How many brackets may be open at once; real files have fewer than ten."""


def read_object(path: Path, error: type[WarmstartError], max_bytes: int = MEGABYTE, finite: bool = True) -> JsonObject:
    """The JSON object in a file; a missing file is a `FileNotFoundError`, any other problem an `error`.

    Args:
        error: The class of the exception that names the file.
        max_bytes: The largest file that is read.
        finite: Refuse NaN and infinity.
    """
    try:
        value = parse_json(read_text(path, error, max_bytes), finite)
    except RecursionError:
        raise error(f"{path}: nested too deep; expected at most {MAX_DEPTH} brackets open at once") from None
    except ValueError as problem:
        raise error(f"{path}: not valid JSON: {problem}") from None
    if not isinstance(value, dict):
        raise error(f"{path}: found {type(value).__name__}, expected a JSON object, `{{…}}`")
    _check_depth(value, path, error)
    return value


def parse_json(text: str, finite: bool = True) -> Json:
    """A JSON value whose objects have each key once; any problem is a `ValueError` or `RecursionError`."""
    value: Json = json.loads(
        text,
        object_pairs_hook=unique_keys,
        parse_constant=_refuse_constant if finite else None,
        parse_float=_finite if finite else None,
    )
    return value


def read_text(path: Path, error: type[WarmstartError], max_bytes: int = MEGABYTE) -> str:
    """The text of a regular file that is not too large."""
    check_regular_file(path, error)
    size = path.stat().st_size
    if size > max_bytes:
        raise error(f"{path}: found {size:,} bytes, expected at most {max_bytes:,}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 text: {problem}") from None


def check_regular_file(path: Path, error: type[WarmstartError]) -> None:
    """Refuse a link, a pipe, a socket or a device: opening one may lead elsewhere, or never end."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise error(f"{path}: found a link, expected a file; replace it with a copy of the file")
    if not stat.S_ISREG(mode):
        raise error(f"{path}: found a folder, pipe, socket or device, expected a file; remove it")


class RepeatedKeyError(ValueError):
    """A key occurs twice in one JSON object."""


def unique_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    """An object whose keys are all different: of two equal keys, some readers take the first and some the last."""
    value: JsonObject = {}
    for key, item in pairs:
        if key in value:
            raise RepeatedKeyError(f"the key {key!r} occurs twice in one object")
        value[key] = item
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"found {text}, expected a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found {text}, expected a number that fits 64 bits")
    return number


def _check_depth(value: object, path: Path, error: type[WarmstartError]) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise error(f"{path}: nested too deep; expected at most {MAX_DEPTH} brackets open at once")
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
