"""Rows to Arrow on disk: the one writer, and how schema columns are stored."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from warmstart.schema import Schema

ROWS = 10_000
CHARACTERS = 1 << 24
"""A record batch is written at so many rows or characters, whichever comes first."""

_TYPES = {"text": pa.string(), "label": pa.string(), "labels": pa.list_(pa.string()), "number": pa.float64()}


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
            size += len(row[name])
        if len(held) >= ROWS or size >= CHARACTERS:
            yield {name: [row[name] for row in held] for name in names}
            held, size = [], 0
    if held:
        yield {name: [row[name] for row in held] for name in names}


def write(batches: Iterable[dict[str, list[Any]]], schema: Any, path: Path) -> Any:
    """Write batches of columns as one Arrow stream and give it back memory-mapped, as a `datasets.Dataset`.

    The file is whole or absent: it is written beside `path`, flushed to disk, and renamed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            with pa.ipc.new_stream(file, schema) as stream:
                for batch in batches:
                    stream.write_batch(pa.RecordBatch.from_pydict(batch, schema=schema))
            sync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)
    return datasets.Dataset.from_file(str(path))


def sync(descriptor: int) -> None:
    """Flush a file to disk, so that a rename never publishes what a power cut can still lose."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
