"""Rows to Arrow on disk: the one writer, and how schema columns are stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import datasets
import pyarrow as pa

from warmstart.data.schema import Schema, Value

MAX_ROWS = 10_000
MAX_CHARACTERS = 1 << 24
"""A record batch is written at this many rows or characters, whichever comes first."""

Batch: TypeAlias = dict[str, list[Value]]
"""Some rows as columns: the values of each by its name."""

_SPAN = [("start", pa.int64()), ("end", pa.int64())]
_SOFT = pa.list_(pa.struct([("label", pa.string()), ("probability", pa.float64())]))
_TYPES = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "label": pa.string(),
    "labels": pa.list_(pa.string()),
    "probabilities": _SOFT,
    "marginals": _SOFT,
    "choice": pa.int64(),
    "relevance": pa.int64(),
    "number": pa.float64(),
    "ranges": pa.list_(pa.struct(_SPAN)),
    "entities": pa.list_(pa.struct([*_SPAN, ("label", pa.string())])),
    "answers": pa.list_(pa.struct([("text", pa.string()), ("start", pa.int64())])),
}


def arrow_schema(schema: Schema, names: Iterable[str]) -> pa.Schema:
    """The Arrow schema of a table with these of the schema's columns, plus where each row came from."""
    chosen = set(names)
    fields = [(column.name, _TYPES[column.kind]) for column in schema if column.name in chosen]
    return pa.schema([*fields, ("file", pa.int32()), ("line", pa.int64())])


def column_batches(rows: Iterable[Mapping[str, Value]], names: list[str], texts: Iterable[str]) -> Iterator[Batch]:
    """Gather rows into columns, a bounded number of rows and characters at a time."""
    texts = [name for name in texts if name in names]
    pending: list[Mapping[str, Value]] = []
    size = 0
    for row in rows:
        pending.append(row)
        for name in texts:
            size += len(row[name]) if isinstance(row[name], str) else sum(map(len, row[name]))
        if len(pending) >= MAX_ROWS or size >= MAX_CHARACTERS:
            yield {name: [row[name] for row in pending] for name in names}
            pending, size = [], 0
    if pending:
        yield {name: [row[name] for row in pending] for name in names}


def write_arrow(batches: Iterable[Batch], path: Path, schema: pa.Schema | None = None) -> datasets.Dataset:
    """Write batches of columns as one Arrow stream and open it memory-mapped.

    Args:
        path: In a folder that is published, or thrown away, as a whole: the file itself may be left half written.
        schema: The Arrow schema; by default that of the first batch, with integers in 32 bits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pending = iter(batches)
    first = list(itertools.islice(pending, 1))
    schema = schema or _compact_schema(first[0])
    with pa.ipc.new_stream(path, schema) as stream:
        for batch in itertools.chain(first, pending):
            stream.write_batch(pa.RecordBatch.from_pydict(batch, schema=schema))
    return open_arrow(path)


def open_arrow(path: Path) -> datasets.Dataset:
    """Open what `write_arrow` wrote, memory-mapped."""
    return datasets.Dataset.from_file(str(path))


def _compact_schema(batch: Batch) -> pa.Schema:
    """The schema of a batch, with integers in 32 bits: token ids are most of what is stored."""
    compact = {pa.int64(): pa.int32()}
    for _ in range(2):  # lists of integers, and the slices of a text: lists of those
        compact |= {pa.list_(wide): pa.list_(narrow) for wide, narrow in compact.items()}
    schema = pa.RecordBatch.from_pydict(batch).schema
    return pa.schema([(field.name, compact.get(field.type, field.type)) for field in schema])
