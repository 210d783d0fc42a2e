"""Single files: written under a temporary name, flushed, then moved into place, so a reader never sees half of one."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from warmstart.storage.folders import STAGING, discard, flush, flush_folder, flush_tree

TAIL = 1 << 20
"""Bytes at the end of a file in which an interrupted append is looked for."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; on leaving, flush it and move it into place, replacing an older file.

    An exception inside leaves the older file as it was.
    """
    # A name of its own for each writer: a process that was thought dead may still be writing the same file.
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex}{STAGING}")
    try:
        yield staging
        flush(staging)
        staging.replace(path)
        flush_folder(path.parent)
    finally:
        staging.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a binary file atomically."""
    with atomic_file(path) as staging:
        staging.write_bytes(data)


@contextmanager
def open_atomic(path: Path) -> Iterator[TextIO]:
    """Open a UTF-8 text file to write as a stream, line ends as they are; it is in place once the block ends."""
    with atomic_file(path) as staging, staging.open("w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def open_atomic_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file to write as a stream; it is in place once the block ends."""
    with atomic_file(path) as staging, staging.open("wb") as file:
        yield file


def move_file(source: Path, target: Path) -> None:
    """Move a file within a file system in one step, replacing an older one."""
    source.replace(target)
    flush_folder(target.parent)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically."""
    write_text(path, json_text(value))


def json_text(value: object) -> str:
    """The text of a JSON file, as all of ours are written."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def append(path: Path, data: bytes) -> None:
    """Append lines to a file, to last; a failure leaves it with a torn line at most, for `drop_torn_line`.

    Unbuffered: a buffer that could not be written is written once more when its file is closed, behind what of it was.
    """
    with path.open("ab", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())


def drop_torn_line(path: Path) -> None:
    """Cut off an append that was interrupted; a missing file is left missing."""
    if (size := torn_at(path)) is not None:
        os.truncate(path, size)


def torn_at(path: Path) -> int | None:
    """Where an append begins that a kill or a power cut interrupted: a last line without an end, or with a hole.

    None where there is none.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = max(file.seek(0, os.SEEK_END) - TAIL, 0)
        file.seek(start)
        tail = file.read()
        hole = tail.find(b"\0")  # bytes that never reached the disk, though what follows them did
        if hole < 0 and (not tail or tail.endswith(b"\n")):
            return None
        end = tail.rfind(b"\n", 0, hole if hole >= 0 else len(tail))
        if end < 0 and start:
            file.seek(0)
            return file.read(start).rfind(b"\n") + 1
    return start + end + 1


def link_or_copy(source: Path, target: Path) -> None:
    """Put a file or folder in another place, replacing what is there; the disk space is shared where possible.

    So only for files that are never modified in place.
    """
    staging = target.with_name(f".{target.name}.{uuid.uuid4().hex}{STAGING}")
    if source.is_dir():
        shutil.copytree(source, staging, copy_function=link_file)
        flush_tree(staging)
        discard(target)
    else:
        link_file(str(source), str(staging))
        flush(staging)
    staging.replace(target)
    flush_folder(target.parent)
    staging.unlink(missing_ok=True)  # which is still there where both were names of one file


def link_file(source: str, target: str) -> None:
    """Hard-link a file, or copy it where the file system cannot."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
