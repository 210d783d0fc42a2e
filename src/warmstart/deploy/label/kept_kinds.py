"""The kind of each column that is kept beside the answers: a number stays a number, all else is kept as text.

All shards have one schema, so a kind is decided before any row is read: by the types of a Parquet file, by the first
rows of a JSONL file, or is text where the user says so. A row that does not fit is set aside, with what to type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warmstart.data.schema import Row
from warmstart.deploy.label.records import as_text

if TYPE_CHECKING:
    import pyarrow as pa

UNDECIDED = ""
_MOST_WHOLE = 1 << 63


def asked_kinds(keep: Iterable[str]) -> dict[str, str]:
    """The columns of `--keep-column NAME`, their kinds not decided yet, and of `NAME=text`."""
    return {asked.removesuffix("=text"): "text" if asked.endswith("=text") else UNDECIDED for asked in keep}


def kinds_in_schema(schema: pa.Schema, keep: Mapping[str, str]) -> dict[str, str]:
    """The kind of each kept column of a Parquet file, where none was asked for."""
    import pyarrow as pa

    def kind(name: str) -> str:
        type_ = schema.field(name).type
        if pa.types.is_boolean(type_):
            return "yes"
        if pa.types.is_integer(type_) and type_ != pa.uint64():
            return "whole"
        return "number" if pa.types.is_floating(type_) else "text"

    return {name: asked or kind(name) for name, asked in keep.items()}


def kinds_in_rows(rows: Sequence[Row], keep: Mapping[str, str]) -> dict[str, str]:
    """The kind of each kept column by the first rows of a file, where none was asked for."""

    def kind(name: str) -> str:
        values = [row[name] for row in rows if row.get(name) is not None]
        kinds = (kind for kind in ("yes", "whole", "number") if all(_fits(value, kind) for value in values))
        return next(kinds, "text") if values else "text"

    return {name: asked or kind(name) for name, asked in keep.items()}


def as_kind(name: str, value: Any, kind: str) -> tuple[Any, str]:
    """A kept value as it is written; or None, and why it does not fit the column."""
    if value is None or (isinstance(value, str) and kind == "text"):
        return value, ""
    if kind == "text":
        return as_text(value), ""
    if _fits(value, kind):
        return (float(value) if kind == "number" else value), ""
    expected = {"whole": "a whole number", "number": "a number", "yes": "true or false"}[kind]
    return None, (
        f"{name!r} is {as_text(value)[:60]}, and this column is kept as {expected}, as in the first rows; "
        f"--keep-column {name}=text keeps all of it as text, in another --out"
    )


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "yes"
    if isinstance(value, int):
        exact = abs(value) <= 1 << 53 if kind == "number" else -_MOST_WHOLE <= value < _MOST_WHOLE
        return kind in ("whole", "number") and exact
    return kind == "number" and isinstance(value, float) and not math.isinf(value)
