"""The columns of the output: one Arrow schema for all shards, fixed by the task before any row is read."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warmstart.errors import ModelError, RecipeError
from warmstart.inference.answer_files import flat
from warmstart.tasks.base import AnyTask

if TYPE_CHECKING:
    import pyarrow as pa

ROW = "row"
"""The column with the file and line of a row, as `part-1.jsonl:17`."""
VECTOR = "vector"
"""The column with the encoder's vector of a text, where that is asked for."""
ASIDE = (ROW, "file", "number", "error", "raw")
GROUP = 10_000
"""Rows in a row group of an output file."""
Kinds = Mapping[str, str]


def columns_of(
    task: AnyTask, inputs: Sequence[str], keep: Mapping[str, str], min_confidence: float | None
) -> dict[str, str]:
    """The names and kinds of the output's columns, in order.

    Args:
        inputs: The columns that the task reads; they are kept by default.
        keep: Columns of the input to keep instead, with their kinds.
        min_confidence: With one, each answer has a column `answered`.
    """
    answers = task.answer_schema
    if min_confidence is not None:
        answers["answered"] = "yes"
    columns = keep or {name: "text" for name in inputs if name not in answers}
    for name in columns:
        if name in answers or name == ROW:
            raise RecipeError(
                f"--keep-column {name}: the output already has a column of that name; rename the input's, or drop it"
            )
    return {ROW: "text", **columns, **answers}


def answers_file(rows: Iterable[Mapping[str, Any]], kinds: Kinds) -> bytes:
    """A Parquet file of answers; the same rows are the same bytes."""
    import pyarrow as pa

    types = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64(), "yes": pa.bool_()}
    types[VECTOR] = pa.list_(pa.float32())
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    return _parquet(pa.Table.from_pylist([_row(row, kinds) for row in rows], schema=schema))


def aside_file(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A Parquet file of rows that were set aside: where each is from, what is wrong with it, and its raw text."""
    import pyarrow as pa

    types = {name: pa.int64() if name == "number" else pa.string() for name in ASIDE}
    return _parquet(pa.Table.from_pylist(list(rows), schema=pa.schema(list(types.items()))))


def _row(row: Mapping[str, Any], kinds: Kinds) -> dict[str, Any]:
    # Arrow silently drops what the schema does not name.
    if unknown := set(row) - set(kinds):
        raise ModelError(f"answers hold {', '.join(sorted(unknown))}, which the output has no column for")
    return flat(row) if VECTOR not in row else {**flat(row), VECTOR: row[VECTOR]}


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    # Explicit, so that the bytes do not depend on the defaults of a version.
    pq.write_table(table, buffer, row_group_size=GROUP, compression="zstd", compression_level=3, version="2.6")
    return buffer.getvalue()
