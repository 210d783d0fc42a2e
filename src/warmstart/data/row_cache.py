"""A source's rows stored on disk: a folder named by all that affects them, valid or absent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import datasets
import pyarrow as pa

from warmstart.data.arrow_files import arrow_schema, column_batches, open_arrow, write_arrow
from warmstart.data.compression import compression_of
from warmstart.data.fault_handling import Droppable
from warmstart.data.findings import Findings
from warmstart.data.formats import hub
from warmstart.data.joins import TEXT_SCHEMA
from warmstart.data.read import check_file, iter_rows
from warmstart.data.schema import Row, Schema
from warmstart.data.source import Source, file_columns, format_of, is_hub
from warmstart.errors import DataError, Location, RunError
from warmstart.runtime.progress import Bar, Progress
from warmstart.storage.artifacts import checksum, publish, verify
from warmstart.storage.folders import discard
from warmstart.storage.json_files import JsonObject

ROWS = "rows.arrow"
STEP = 10_000
"""Rows between two moves of the progress bar."""
FORMAT_VERSION = 6
"""Part of every key: raise it when reading or storing changes, and old folders are no longer found."""

Stamps = dict[str, tuple[int, int]]
"""Size and time of each file, to notice one that changes between its checksum and its reading."""


class StoredRows(NamedTuple):
    """The rows of a source as stored, with the folder's key and manifest."""

    key: str
    rows: datasets.Dataset
    manifest: JsonObject


@dataclass(frozen=True)
class Reading:
    """What is read, and how: a source by a schema; `drop` and `collect_errors` as in `iter_rows`."""

    source: Source
    schema: Schema
    drop: frozenset[Droppable] = frozenset()
    collect_errors: bool = False


def open_or_build(reading: Reading, cache: Path, findings: Findings, progress: Progress) -> StoredRows:
    """Open the folder of a source's rows, or read the source into it first."""
    source = reading.source
    before = _stamps(source)
    name = ", ".join(Path(file).name for file in source.files)
    with progress.bar(f"check {name}", sum(size for size, _ in before.values())) as bar:
        key = _key(reading, bar)
    folder = cache / key
    stored = _open(folder)
    if stored is None:
        if folder.exists():
            message = "the stored copy of these rows was damaged; they were read again"
            findings.add("cache", "note", message, Location(source.files[0]))
            discard(folder)
        with progress.bar(f"read {name}", None) as bar:
            _build(reading, folder, bar, before)
        stored = _open(folder)
    if stored is None:
        problem = "what was just written cannot be read back. Check the disk, then run again."
        raise DataError(problem, "disk", location=Location(str(folder)))
    return stored


def _key(reading: Reading, bar: Bar) -> str:
    """Hash content, reading options, columns and schema; formats are part of it, file names are not."""
    source, schema = reading.source, reading.schema
    columns = file_columns(source, schema)
    files = []
    for file in source.files:
        check_file(file, source)
        if is_hub(file):
            files.append(["hub", "", hub.digest(file, columns)])
        else:
            files.append([format_of(file, source), compression_of(file), checksum(Path(file))["sha256"]])
            bar.advance(Path(file).stat().st_size)
    parts = {
        "version": FORMAT_VERSION,
        "files": files,
        "texts": {name: _key(Reading(texts, TEXT_SCHEMA), bar) for name, texts in source.texts.items()},
        "check": getattr(schema.check, "__qualname__", None),
        "defaults": schema.defaults([column.target.name for column in columns]),
        "columns": [
            [
                column.target.name,
                column.target.kind,
                column.target.answer,
                column.target.required,
                column.name,
                column.part,
            ]
            for column in columns
        ],
        "optional": [column.name for column in schema if not column.required],  # reported where they are not read
        "options": [
            source.header,
            source.delimiter,
            source.sheet,
            source.quotes,
            source.encoding,
            source.extra_columns,
            source.document,
            source.label_separator,
            sorted(reading.drop),
            reading.collect_errors,
        ],
    }
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def _open(folder: Path) -> StoredRows | None:
    """The rows and the manifest in a folder, or None where it is absent or not as it was written."""
    try:
        manifest = verify(folder)
        return StoredRows(folder.name, open_arrow(folder / ROWS), manifest)
    except (RunError, OSError, pa.ArrowException):
        return None


def _build(reading: Reading, folder: Path, bar: Bar, before: Stamps) -> None:
    """Read the source and publish its rows as a folder."""
    source, schema = reading.source, reading.schema
    findings = Findings()
    names = schema.stored_names([column.target.name for column in file_columns(source, schema)])
    names += schema.defaults(names)
    read = iter_rows(source, schema, findings, drop=reading.drop, collect_errors=reading.collect_errors)
    rows = _counted(read, bar)
    about: JsonObject = {"source": list(source.files)}
    try:
        with publish(folder, about) as staging:
            batches = column_batches(rows, [*names, "file", "line"], schema.texts)
            write_arrow(batches, staging / ROWS, arrow_schema(schema, names))
            after = _stamps(source)
            if changed := [file for file in {**before, **after} if before.get(file) != after.get(file)]:
                problem = "changed while being read. Run again when nothing writes to it any more."
                raise DataError(problem, "changed", location=Location(changed[0]))
            about["findings"] = findings.as_json()
    except (OSError, RunError):
        if _open(folder) is None:  # else another process published the same rows first
            raise


def _counted(rows: Iterator[Row], bar: Bar) -> Iterator[Row]:
    number = 0
    for number, row in enumerate(rows, 1):
        if number % STEP == 0:
            bar.advance(STEP)
        yield row
    bar.advance(number % STEP)


def _stamps(source: Source) -> Stamps:
    files = [file for each in (source, *source.texts.values()) for file in each.files]
    statuses = {file: Path(file).stat() for file in files if not is_hub(file) and Path(file).is_file()}
    return {file: (status.st_size, status.st_mtime_ns) for file, status in statuses.items()}
