"""A source's rows kept on disk: a folder named by all that affects them, valid or absent."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from warmstart.data.arrow_files import arrow_schema, batches, write
from warmstart.data.findings import Findings
from warmstart.data.formats import hub
from warmstart.data.joins import TEXTS
from warmstart.data.read import Row, check_file, read
from warmstart.data.schema import Schema
from warmstart.data.source import Source, format_of, is_hub, wanted
from warmstart.errors import DataError, RunError
from warmstart.runtime.progress import Bar, Progress
from warmstart.storage.artifacts import describe, publish, verify

ROWS = "rows.arrow"
STEP = 10_000
"""Rows between two moves of the progress bar."""
FORMAT_VERSION = 3
"""Part of every key: raise it when reading or storing changes, and old folders are no longer found."""

Opened = tuple[str, Any, dict[str, Any]]
"""A folder's key, its rows as a `datasets.Dataset`, and its manifest."""


def open_or_build(
    source: Source, schema: Schema, cache: Path, findings: Findings, drop_unlabelled: bool, progress: Progress
) -> Opened:
    """Open the folder of this source's rows, or read the source into it first."""
    before = _stamps(source)
    name = ", ".join(Path(file).name for file in source.files)
    with progress.bar(f"check {name}", sum(size for size, _ in before)) as bar:
        key = _key(source, schema, drop_unlabelled, bar)
    folder = cache / key
    opened = _open(folder)
    if opened is None:
        if folder.exists():
            findings.add(
                "cache", "note", "the stored copy of these rows was damaged; they were read again", source.files[0]
            )
            _discard(folder)
        with progress.bar(f"read {name}", None) as bar:
            _build(source, schema, folder, drop_unlabelled, bar, before)
        opened = _open(folder)
    if opened is None:
        raise DataError(f"{folder}: what was just written cannot be read back. Check the disk, then run again.", "disk")
    return key, *opened


def _key(source: Source, schema: Schema, drop_unlabelled: bool, bar: Bar) -> str:
    """Hash content, reading options, columns and schema; formats are part of it, file names are not."""
    columns = wanted(source, schema)
    files = []
    for file in source.files:
        check_file(file, source)
        if is_hub(file):
            files.append(["hub", "", hub.digest(file, columns)])
        else:
            zipped = "gz" if file.lower().endswith(".gz") else ""
            files.append([format_of(file, source), zipped, describe(Path(file))["sha256"]])
            bar.advance(Path(file).stat().st_size)
    parts = {
        "version": FORMAT_VERSION,
        "files": files,
        "texts": {name: _key(texts, TEXTS, False, bar) for name, texts in source.texts.items()},
        "check": getattr(schema.check, "__qualname__", None),
        "defaults": schema.defaults([want.column.name for want in columns]),
        "columns": [
            [want.column.name, want.column.kind, want.column.answer, want.column.required, want.name, want.part]
            for want in columns
        ],
        "options": [
            source.header,
            source.quotes,
            source.encoding,
            source.extra_columns,
            source.document,
            source.label_separator,
            drop_unlabelled,
        ],
    }
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def _open(folder: Path) -> tuple[Any, dict[str, Any]] | None:
    """Give the rows and manifest of a folder, or None where it is absent or not what was written."""
    try:
        manifest = verify(folder)
        return datasets.Dataset.from_file(str(folder / ROWS)), manifest
    except (RunError, OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _build(
    source: Source, schema: Schema, folder: Path, drop_unlabelled: bool, bar: Bar, before: list[tuple[int, int]]
) -> None:
    """Read the source and publish its rows as a folder."""
    seen = Findings()
    names = [want.column.name for want in wanted(source, schema)]
    names += schema.defaults(names)
    rows = _counted(read(source, schema, seen, drop_unlabelled=drop_unlabelled), bar)
    about: dict[str, Any] = {"source": list(source.files)}
    try:
        with publish(folder, about) as staging:
            columns = batches(rows, [*names, "file", "line"], schema.texts)
            write(columns, staging / ROWS, arrow_schema(schema, names))
            if _stamps(source) != before:
                raise DataError(
                    f"{', '.join(source.files)}: changed while being read. Run again once it is at rest.", "changed"
                )
            about["findings"] = seen.as_json()
    except (OSError, RunError):
        if _open(folder) is None:  # else another process published the same rows first
            raise


def _discard(folder: Path) -> None:
    """Take a damaged folder away: first out of sight, so that nobody meets it half deleted."""
    aside = folder.with_name(f".damaged-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # another process was quicker
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _counted(rows: Iterator[Row], bar: Bar) -> Iterator[Row]:
    number = 0
    for number, row in enumerate(rows, 1):
        if number % STEP == 0:
            bar.advance(STEP)
        yield row
    bar.advance(number % STEP)


def _stamps(source: Source) -> list[tuple[int, int]]:
    """Size and time of each file, to notice one that changes between its checksum and its reading."""
    files = [file for one in (source, *source.texts.values()) for file in one.files]
    found = [Path(file).stat() for file in files if not is_hub(file) and Path(file).is_file()]
    return [(item.st_size, item.st_mtime_ns) for item in found]
