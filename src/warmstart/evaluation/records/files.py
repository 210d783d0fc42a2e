"""Records as JSON files: a dataclass written as a JSON object, and read back with its types checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from pydantic import PlainValidator, TypeAdapter, ValidationError

from warmstart.data.findings import Finding
from warmstart.errors import RunError
from warmstart.storage.files import write_json
from warmstart.storage.json_files import MEGABYTE, JsonObject, read_object

LARGEST = 64 * MEGABYTE
"""The largest record that is read; a long training's history has an entry for every few steps."""
OPTIONAL = {"optional": True}
"""Metadata of a field that is left out of the file where it is None."""
_SHOWN = 60
"""Characters of a wrong value that an error shows."""


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a number")
    return value


Number: TypeAlias = Annotated[float, PlainValidator(_number)]
"""A number that is written as it was read: 3 stays 3, and does not become 3.0."""

RecordT = TypeVar("RecordT")


def read_record(kind: type[RecordT], path: Path) -> RecordT:
    """Read a record from its file; a missing file is a `FileNotFoundError`."""
    return parse_record(kind, read_object(path, RunError, LARGEST), path)


def parse_record(kind: type[RecordT], values: object, path: Path) -> RecordT:
    """A record, or any other type, from parsed JSON.

    Raises:
        RunError: Names the file and the key whose value is missing or of another type.
    """
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"])) or "the file"
        message = problem["msg"][:1].lower() + problem["msg"][1:]
        value = "nothing" if problem["type"] == "missing" else repr(problem["input"])[:_SHOWN]
        raise RunError(f"{path}: {key}: found {value}; {message}") from None


def write_record(record: object, path: Path) -> None:
    """Write a record to its file."""
    write_json(path, as_json(record))


def as_json(record: object) -> JsonObject:
    """A record as plain values for JSON, where an undefined number is null."""
    plain = _plain(record)
    assert isinstance(plain, dict)
    return plain


def _plain(value: object) -> object:
    if isinstance(value, Finding):  # its location is flat in the file
        return value.as_json()
    if is_dataclass(value):
        return {
            field.name: _plain(inner)
            for field in fields(value)
            if (inner := getattr(value, field.name)) is not None or not field.metadata.get("optional")
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
