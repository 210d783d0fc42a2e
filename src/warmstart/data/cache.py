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

from warmstart.data import hub
from warmstart.data.arrow import arrow_schema, batches, sync, sync_folder, write
from warmstart.data.findings import Findings
from warmstart.data.read import Row, check_file, read
from warmstart.data.source import Source, format_of, is_hub, wanted
from warmstart.errors import DataError
from warmstart.progress import Bar, Progress
from warmstart.schema import Schema

FORMAT_VERSION = 1
"""Part of every key: raise it when reading or storing changes, and old folders are no longer found."""

Opened = tuple[str, Any, dict[str, Any]]
"""A folder's key, its rows as a `datasets.Dataset`, and its manifest."""


def open_or_build(
    source: Source, schema: Schema, cache: Path, findings: Findings, drop_unlabelled: bool, progress: Progress
) -> Opened:
    """Open the folder of this source's rows, or read the source into it first."""
    before = _stamps(source)
    name = ", ".join(source.files)
    with progress.bar(f"checksum {name}", None) as bar:
        key = _key(source, schema, drop_unlabelled, bar)
    folder = cache / key
    opened = _open(folder)
    if opened is None:
        if folder.exists():
            findings.add("cache", "note", "the stored copy of these rows was damaged; they were read again", name)
            _discard(folder)
        with progress.bar(f"read {name}", None) as bar:
            _build(source, schema, folder, drop_unlabelled, bar, before)
        opened = _open(folder)
    if opened is None:
        raise DataError(f"{folder}: what was just written cannot be read back. Check the disk, then run again.")
    return key, *opened


def digest(path: Path, bar: Bar | None = None) -> str:
    """SHA-256 of a file's bytes."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            total.update(chunk)
            if bar is not None:
                bar.advance(len(chunk))
    return total.hexdigest()


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
            files.append([format_of(file, source), zipped, digest(Path(file), bar)])
    parts = {
        "version": FORMAT_VERSION,
        "files": files,
        "columns": [
            [want.column.name, want.column.kind, want.column.answer, want.column.required, want.name]
            for want in columns
        ],
        "options": [
            source.header,
            source.quotes,
            source.encoding,
            source.extra_columns,
            source.label_separator,
            drop_unlabelled,
        ],
    }
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def _open(folder: Path) -> tuple[Any, dict[str, Any]] | None:
    """Give the rows and manifest of a folder, or None where it is absent or not what was written."""
    path = folder / "rows.arrow"
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        if digest(path) != manifest["sha256"]:
            return None
        rows = datasets.Dataset.from_file(str(path))
        return (rows, manifest) if len(rows) == manifest["rows"] else None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _build(
    source: Source,
    schema: Schema,
    folder: Path,
    drop_unlabelled: bool,
    bar: Bar,
    before: list[tuple[int, int]],
) -> None:
    """Read the source into a folder beside the final one, then publish it by one rename."""
    partial = folder.with_name(f".partial-{folder.name}-{uuid.uuid4().hex}")
    seen = Findings()
    names = [want.column.name for want in wanted(source, schema)]
    rows = _counted(read(source, schema, seen, drop_unlabelled=drop_unlabelled), bar)
    try:
        path = partial / "rows.arrow"
        data = write(batches(rows, [*names, "file", "line"], schema.texts), arrow_schema(schema, names), path)
        if _stamps(source) != before:
            raise DataError(f"{', '.join(source.files)}: changed while being read. Run again once it is at rest.")
        manifest = {
            "fingerprint": folder.name,
            "rows": len(data),
            "sha256": digest(path),
            "files": list(source.files),
            "findings": seen.as_json(),
        }
        with (partial / "manifest.json").open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            sync(file.fileno())
        sync_folder(partial)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # else another process published the same rows first
                raise
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _discard(folder: Path) -> None:
    """Take a damaged folder away: first out of sight, so that nobody meets it half deleted."""
    aside = folder.with_name(f".damaged-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # another process was quicker
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _counted(rows: Iterator[Row], bar: Bar) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if number % 10_000 == 0:
            bar.advance(10_000, f"{number} rows")
        yield row


def _stamps(source: Source) -> list[tuple[int, int]]:
    """Size and time of each file, to notice one that changes between its checksum and its reading."""
    found = [Path(file).stat() for file in source.files if not is_hub(file) and Path(file).is_file()]
    return [(item.st_size, item.st_mtime_ns) for item in found]
