"""Weights from any source: the header of a safetensors file is compared with the file before anything is loaded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TypeGuard

from warmstart.errors import ModelError
from warmstart.storage.json_files import MEGABYTE, Json, JsonObject, check_regular_file, read_object

BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8}
BITS |= {"I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8}
MAX_HEADER_BYTES = 16 * MEGABYTE
MAX_TENSORS = 100_000
MAX_SHARDS = 1_000


def check_index(path: Path) -> None:
    """Refuse an index whose shards are not safetensors files in the same folder."""
    names = read_object(path, ModelError, MAX_HEADER_BYTES).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise ModelError(f"{path}: weight_map: expected the name of a file for each tensor")
    shards = sorted(set(names.values()))
    if len(shards) > MAX_SHARDS:
        raise ModelError(f"{path}: weight_map: found {len(shards):,} files, expected at most {MAX_SHARDS:,}")
    for name in shards:
        if "/" in name or "\\" in name or "\0" in name or not name.endswith(".safetensors"):
            raise ModelError(f"{path}: weight_map: found {name!r}, expected a .safetensors file in the same folder")
        if not (path.parent / name).is_file():
            raise ModelError(f"{path}: weight_map: found {name!r}, which is not in the folder")
        check_tensors(path.parent / name)


def check_tensors(path: Path) -> None:
    """Refuse a safetensors file whose header does not match its size."""
    check_regular_file(path, ModelError)
    room = path.stat().st_size
    header = _header(path, room)
    room -= 8 + header.pop("", 0)
    if len(header) > MAX_TENSORS:
        raise ModelError(f"{path}: found {len(header):,} tensors, expected at most {MAX_TENSORS:,}")
    spans = sorted(_span(path, name, about) for name, about in header.items())
    end = 0
    for start, stop, name in spans:
        if start != end:
            raise ModelError(f"{path}: {name!r}: data_offsets: found a start at {start:,}, expected {end:,}")
        end = stop
    if end != room:
        raise ModelError(f"{path}: found {room:,} bytes of tensors, its header describes {end:,}; the file is damaged")


def bytes_of_weights(folder: Path) -> int:
    """How many bytes of weights a folder holds: its model cannot have more numbers than that."""
    return sum(path.stat().st_size for path in (*folder.glob("*.safetensors"), *folder.glob("?_*/*.safetensors")))


def _header(path: Path, room: int) -> JsonObject:
    """The header by tensor name; its own length is under the empty name."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if room < 8 or size > min(MAX_HEADER_BYTES, room - 8):
            raise ModelError(f"{path}: header: found a length of {size:,} bytes in a file of {room:,}; it is damaged")
        text = file.read(size)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: header: not JSON: {error}") from None
    if not isinstance(header, dict) or "" in header:
        raise ModelError(f"{path}: header: expected tensors by name")
    notes = header.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise ModelError(f"{path}: header: __metadata__: expected a text for each name")
    return {**header, "": size}


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is there twice")
    return values


def _span(path: Path, name: str, about: JsonObject | Json) -> tuple[int, int, str]:
    """Where a tensor's bytes start and end, checked to be as many as its shape needs."""
    keys = ("dtype", "shape", "data_offsets")
    if not isinstance(about, dict) or set(about) != set(keys):
        raise ModelError(f"{path}: {name!r}: expected {', '.join(keys)}")
    dtype, shape, offsets = (about[key] for key in keys)
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ModelError(f"{path}: {name!r}: dtype: found {str(dtype)[:40]!r}; expected one of {', '.join(BITS)}")
    if not _are_counts(shape, 8) or not _are_counts(offsets, 2) or len(offsets) != 2:
        raise ModelError(f"{path}: {name!r}: shape and data_offsets: expected whole numbers, none below 0")
    needed = math.prod(shape) * BITS[dtype] // 8
    if offsets[1] - offsets[0] != needed:
        raise ModelError(
            f"{path}: {name!r}: data_offsets: found {offsets[1] - offsets[0]:,} bytes, its shape needs {needed:,}"
        )
    return offsets[0], offsets[1], name


def _are_counts(values: object, max_length: int) -> TypeGuard[list[int]]:
    """Whether these are a few integers, none negative, none too large for a file."""
    return (
        isinstance(values, list)
        and len(values) <= max_length
        and all(type(value) is int and 0 <= value < 1 << 48 for value in values)
    )
