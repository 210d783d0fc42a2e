"""Weights from anywhere: the header of a safetensors file is found to fit the file before anything is loaded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from warmstart.errors import ModelError
from warmstart.storage.json_files import MEGABYTE, check_regular, read_object

BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8}
BITS |= {"I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8}
LARGEST_HEADER = 16 * MEGABYTE
MOST_TENSORS = 100_000
MOST_SHARDS = 1_000


def check_index(path: Path) -> None:
    """Refuse an index whose parts are not safetensors files in the same folder."""
    names = read_object(path, ModelError, LARGEST_HEADER).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise ModelError(f"{path}: weight_map: expected the name of a file for each tensor")
    shards = sorted(set(names.values()))
    if len(shards) > MOST_SHARDS:
        raise ModelError(f"{path}: weight_map: found {len(shards):,} files, expected at most {MOST_SHARDS:,}")
    for name in shards:
        if "/" in name or "\\" in name or "\0" in name or not name.endswith(".safetensors"):
            raise ModelError(f"{path}: weight_map: found {name!r}, expected a .safetensors file in the same folder")
        if not (path.parent / name).is_file():
            raise ModelError(f"{path}: weight_map: found {name!r}, which is not in the folder")
        check_tensors(path.parent / name)


def check_tensors(path: Path) -> None:
    """Refuse a safetensors file whose header says anything that its size does not bear out."""
    check_regular(path, ModelError)
    room = path.stat().st_size
    header = _header(path, room)
    room -= 8 + header.pop("", 0)
    if len(header) > MOST_TENSORS:
        raise ModelError(f"{path}: found {len(header):,} tensors, expected at most {MOST_TENSORS:,}")
    spans = sorted(_span(path, name, about) for name, about in header.items())
    end = 0
    for start, stop, name in spans:
        if start != end:
            raise ModelError(f"{path}: {name!r}: data_offsets: found a start at {start:,}, expected {end:,}")
        end = stop
    if end != room:
        raise ModelError(f"{path}: found {room:,} bytes of tensors, its header says {end:,}; it was cut or added to")


def bytes_of_weights(folder: Path) -> int:
    """How many bytes of weights a folder holds: a model that needs more numbers than that is not what lies there."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _header(path: Path, room: int) -> dict[str, Any]:
    """The header by tensor name; its own length stands under the empty name."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if room < 8 or size > min(LARGEST_HEADER, room - 8):
            raise ModelError(f"{path}: header: found a length of {size:,} bytes in a file of {room:,}; it is damaged")
        text = file.read(size)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: header: not JSON: {error}") from None
    if not isinstance(header, dict) or "" in header:
        raise ModelError(f"{path}: header: expected tensors by name")
    notes = header.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise ModelError(f"{path}: header: __metadata__: expected a text for each name")
    return {**header, "": size}


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _span(path: Path, name: str, about: Any) -> tuple[int, int, str]:
    """Where a tensor's bytes begin and end, found to be as many as its shape needs."""
    keys = ("dtype", "shape", "data_offsets")
    if not isinstance(about, dict) or set(about) != set(keys):
        raise ModelError(f"{path}: {name!r}: expected {', '.join(keys)}")
    kind, shape, offsets = (about[key] for key in keys)
    if not isinstance(kind, str) or kind not in BITS:
        raise ModelError(f"{path}: {name!r}: dtype: found {str(kind)[:40]!r}; expected one of {', '.join(BITS)}")
    if not _counts(shape, 8) or not _counts(offsets, 2) or len(offsets) != 2:
        raise ModelError(f"{path}: {name!r}: shape and data_offsets: expected whole numbers, none below 0")
    needed = math.prod(shape) * BITS[kind] // 8
    if offsets[1] - offsets[0] != needed:
        raise ModelError(
            f"{path}: {name!r}: data_offsets: found {offsets[1] - offsets[0]:,} bytes, its shape needs {needed:,}"
        )
    return offsets[0], offsets[1], name


def _counts(values: Any, most: int) -> bool:
    """Whether these are a few whole numbers, none below 0, none too large for a file."""
    return (
        isinstance(values, list)
        and len(values) <= most
        and all(type(one) is int and 0 <= one < 1 << 48 for one in values)
    )
