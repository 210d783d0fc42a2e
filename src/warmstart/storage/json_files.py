"""Reading JSON from a folder that nobody vouches for: bounded, each key once, real numbers only."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

from warmstart.errors import WarmstartError

MEGABYTE = 1 << 20
DEEPEST = 64
"""How many brackets may be open at once; real files have fewer than ten."""


def read_object(path: Path, wrong: type[WarmstartError], most: int = MEGABYTE, finite: bool = True) -> dict[str, Any]:
    """The JSON object in a file; a missing file is a `FileNotFoundError`, all else that is wrong an error of `wrong`.

    Args:
        wrong: The class of the error that names the file.
        most: The largest file that is read, in bytes.
        finite: Refuse NaN and infinity.
    """
    try:
        found = parse(read_text(path, wrong, most), finite)
    except RecursionError:
        raise wrong(f"{path}: nested too deep; expected at most {DEEPEST} brackets open at once") from None
    except ValueError as error:
        raise wrong(f"{path}: not JSON that can be used: {error}") from None
    if not isinstance(found, dict):
        raise wrong(f"{path}: found {type(found).__name__}, expected a JSON object, `{{…}}`")
    _check_depth(found, path, wrong)
    return found


def parse(text: str, finite: bool = True) -> Any:
    """A JSON value whose objects have each key once; all that is wrong is a `ValueError` or `RecursionError`."""
    return json.loads(
        text,
        object_pairs_hook=_once,
        parse_constant=_no_number if finite else None,
        parse_float=_finite if finite else None,
    )


def read_text(path: Path, wrong: type[WarmstartError], most: int = MEGABYTE) -> str:
    """The text of a regular file that is not too large."""
    check_regular(path, wrong)
    size = path.stat().st_size
    if size > most:
        raise wrong(f"{path}: found {size:,} bytes, expected at most {most:,}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise wrong(f"{path}: not UTF-8 text: {error}") from None


def check_regular(path: Path, wrong: type[WarmstartError]) -> None:
    """Refuse a link, a pipe, a socket or a device: opening one may lead elsewhere, or never end."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise wrong(f"{path}: found a link, expected a file; put a copy of the file in its place")
    if not stat.S_ISREG(mode):
        raise wrong(f"{path}: found a folder, pipe, socket or device, expected a file; remove it")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: readers differ in which of two they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice!r} is there twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"found {text}, expected a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found {text}, expected a number that fits 64 bits")
    return number


def _check_depth(value: Any, path: Path, wrong: type[WarmstartError]) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise wrong(f"{path}: nested too deep; expected at most {DEEPEST} brackets open at once")
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
