"""Rows to Arrow on disk: the one writer, and how schema columns are stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from warmstart.data.schema import Schema

ROWS = 10_000
CHARACTERS = 1 << 24
"""A record batch is written at so many rows or characters, whichever comes first."""

_PLACE = [("start", pa.int64()), ("end", pa.int64())]
_TYPES = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "label": pa.string(),
    "labels": pa.list_(pa.string()),
    "choice": pa.int64(),
    "relevance": pa.int64(),
    "number": pa.float64(),
    "ranges": pa.list_(pa.struct(_PLACE)),
    "entities": pa.list_(pa.struct([*_PLACE, ("label", pa.string())])),
    "answers": pa.list_(pa.struct([("text", pa.string()), ("start", pa.int64())])),
}


def arrow_schema(schema: Schema, names: Iterable[str]) -> Any:
    """Give the Arrow schema of a table with these of the schema's columns, plus where each row came from."""
    chosen = set(names)
    fields = [(column.name, _TYPES[column.kind]) for column in schema if column.name in chosen]
    return pa.schema([*fields, ("file", pa.int32()), ("line", pa.int64())])


def batches(
    rows: Iterable[Mapping[str, Any]], names: list[str], texts: Iterable[str]
) -> Iterator[dict[str, list[Any]]]:
    """Gather rows into columns, a bounded number of rows and characters at a time."""
    texts = [name for name in texts if name in names]
    held: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        held.append(row)
        for name in texts:
            size += len(row[name]) if isinstance(row[name], str) else sum(map(len, row[name]))
        if len(held) >= ROWS or size >= CHARACTERS:
            yield {name: [row[name] for row in held] for name in names}
            held, size = [], 0
    if held:
        yield {name: [row[name] for row in held] for name in names}


def write(batches: Iterable[dict[str, list[Any]]], path: Path, schema: Any = None) -> Any:
    """Write batches of columns as one Arrow stream and give it back memory-mapped, as a `datasets.Dataset`.

    Args:
        path: In a folder that is published, or thrown away, as a whole: the file itself may be left half written.
        schema: The Arrow schema; by default that of the first batch, whole numbers in 32 bits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pending = iter(batches)
    first = list(itertools.islice(pending, 1))
    schema = schema or _compact(first[0])
    with pa.ipc.new_stream(path, schema) as stream:
        for batch in itertools.chain(first, pending):
            stream.write_batch(pa.RecordBatch.from_pydict(batch, schema=schema))
    return open_written(path)


def open_written(path: Path) -> Any:
    """Open what `write` wrote, memory-mapped, as a `datasets.Dataset`."""
    return datasets.Dataset.from_file(str(path))


def _compact(batch: dict[str, list[Any]]) -> Any:
    """The schema of a batch, with whole numbers in 32 bits: token ids are most of what is stored."""
    small = {pa.int64(): pa.int32()}
    for _ in range(2):  # lists of numbers, and the slices of a text: lists of those
        small |= {pa.list_(wide): pa.list_(narrow) for wide, narrow in small.items()}
    found = pa.RecordBatch.from_pydict(batch).schema
    return pa.schema([(column.name, small.get(column.type, column.type)) for column in found])
