"""Folders by path or URI: what is in them, and files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from warmstart.errors import DataError, RecipeError


@dataclass(frozen=True)
class Entry:
    """A file in a folder: its name from there, its size, and when it was last written, in nanoseconds."""

    name: str
    bytes: int
    modified: int


@dataclass(frozen=True)
class Folder:
    """A folder, by its path or by a URI that Arrow knows: `s3://`, `gs://`, `file://` and others.

    It can be sent to other processes, which open it for themselves.
    """

    uri: str

    @cached_property
    def _open(self) -> tuple[Any, str]:
        import pyarrow as pa
        from pyarrow import fs

        if "://" not in self.uri:
            return fs.LocalFileSystem(), str(Path(self.uri).absolute())
        try:
            system, path = fs.FileSystem.from_uri(self.uri)
        except (pa.ArrowException, OSError) as error:
            raise RecipeError(f"{self.uri}: {error}; expected a folder, or a URI as s3://bucket/folder") from None
        return system, path

    @property
    def local(self) -> Path | None:
        """The folder on this machine's disks; None where it is elsewhere."""
        from pyarrow import fs

        system, path = self._open
        return Path(path) if isinstance(system, fs.LocalFileSystem) else None

    def files(self) -> list[Entry]:
        """All files below the folder, by name; none where there is no such folder."""
        from pyarrow import fs

        system, path = self._open
        found = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        start = len(path.rstrip("/")) + 1
        there = [Entry(one.path[start:], one.size, one.mtime_ns) for one in found if one.type == fs.FileType.File]
        return sorted(there, key=lambda one: one.name)

    def entry(self, name: str) -> Entry | None:
        """One file, or None where it is not there."""
        from pyarrow import fs

        system, path = self._open
        found = system.get_file_info(f"{path}/{name}")
        return Entry(name, found.size, found.mtime_ns) if found.type == fs.FileType.File else None

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A file to be read from any place in it."""
        system, path = self._open
        with system.open_input_file(f"{path}/{name}") as file:
            yield file

    def read(self, name: str) -> bytes | None:
        """All that is in a file, or None where it is not there."""
        if self.entry(name) is None:
            return None
        with self.open(name) as file:
            found: bytes = file.read()
            return found

    def write(self, name: str, data: bytes) -> None:
        """Put a file in its place in one step; one that is there is replaced.

        On a disk it is staged, flushed and renamed. An object store shows an object when it was sent whole.
        """
        if (folder := self.local) is not None:
            _publish(folder / name, data)
            return
        system, path = self._open
        with system.open_output_stream(f"{path}/{name}") as file:
            file.write(data)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        system, path = self._open
        if self.entry(name) is not None:
            system.delete_file(f"{path}/{name}")


def split(where: str) -> tuple[Folder, list[str] | None]:
    """The folder that is named, and None; or of a file's name its folder, and the file's own name."""
    from pyarrow import fs

    system, path = Folder(where)._open
    kind = system.get_file_info(path).type
    if kind == fs.FileType.NotFound:
        raise DataError(f"{where}: no such file or folder. Expected what is to be labelled; see: ls", "no-file")
    if kind == fs.FileType.Directory:
        return Folder(where), None
    parent, _, name = where.rstrip("/").rpartition("/")
    return Folder(parent or ("/" if where.startswith("/") else ".")), [name]


def _publish(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Nobody else has this name: a worker whose driver was killed may be writing the same file still.
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex}.staging")
    try:
        with staging.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)
