"""The columns of the output: one Arrow schema for every shard, fixed by the task before a row was seen."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warmstart.deploy.label.records import as_text
from warmstart.errors import ModelError, RecipeError
from warmstart.inference.answer_files import flat
from warmstart.tasks.base import Task

ROW = "row"
"""The column that says where a row came from, as `part-1.jsonl:17`."""
ASIDE = (ROW, "file", "number", "error", "raw")
GROUP = 10_000
"""Rows in a row group of an output file."""
Kinds = Mapping[str, str]


def columns_of(task: Task[Any], asked: Sequence[str], keep: Sequence[str], least: float | None) -> dict[str, str]:
    """The names and kinds of the output's columns, in order.

    Args:
        asked: The task's columns that are read; they are kept where nothing else is said.
        keep: Columns of the input to keep instead, as text.
        least: The least confidence; with one, each answer says whether it was `answered`.
    """
    answers = task.gives
    if least is not None:
        answers["answered"] = "yes"
    kept = list(dict.fromkeys(keep or [name for name in asked if name not in answers]))
    for name in kept:
        if name in answers or name == ROW:
            raise RecipeError(
                f"--keep {name}: the output has a column of that name already; rename the input's, or leave it out"
            )
    return {ROW: "text", **dict.fromkeys(kept, "text"), **answers}


def answers_file(rows: Iterable[Mapping[str, Any]], kinds: Kinds) -> bytes:
    """A Parquet file of answers; the same rows are the same bytes."""
    import pyarrow as pa

    types = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64(), "yes": pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    found = [_row(row, kinds) for row in rows]
    return _parquet(pa.Table.from_pylist(found, schema=schema))


def aside_file(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A Parquet file of rows that were set aside: where each stands, what is wrong with it, and what it is."""
    import pyarrow as pa

    types = {name: pa.int64() if name == "number" else pa.string() for name in ASIDE}
    return _parquet(pa.Table.from_pylist(list(rows), schema=pa.schema(list(types.items()))))


def plain(value: Any) -> str | None:
    """A kept value as text: a string as it stands, all else as JSON."""
    return value if value is None or isinstance(value, str) else as_text(value)


def _row(row: Mapping[str, Any], kinds: Kinds) -> dict[str, Any]:
    # Arrow leaves out, without a word, what a schema does not name.
    if unknown := set(row) - set(kinds):
        raise ModelError(f"answers hold {', '.join(sorted(unknown))}, which the output has no column for")
    return flat(row)


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq

    held = io.BytesIO()
    # Stated, so that the bytes do not hang on a default of the day.
    pq.write_table(table, held, row_group_size=GROUP, compression="zstd", compression_level=3, version="2.6")
    return held.getvalue()
