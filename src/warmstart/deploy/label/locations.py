"""Folders by path or URI: their files, each of which is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from warmstart.deploy.label.object_stores import folder_of, open_uri
from warmstart.errors import DataError, Location, RecipeError
from warmstart.storage.files import write_bytes


@dataclass(frozen=True)
class Entry:
    """A file in a folder: its name from there, its size, and when it was last written, in nanoseconds."""

    name: str
    bytes: int
    modified: int


@dataclass(frozen=True)
class Folder:
    """A folder, by its path or by a URI that Arrow knows: `s3://`, `gs://`, `file://` and others.

    It can be sent to other processes, which open it themselves.
    """

    uri: str

    @cached_property
    def _open(self) -> tuple[Any, str]:
        import pyarrow as pa
        from pyarrow import fs

        if "://" not in self.uri:
            return fs.LocalFileSystem(), str(Path(self.uri).absolute())
        try:
            return open_uri(self.uri)
        except (pa.ArrowException, OSError) as error:
            raise RecipeError(f"{self.uri}: {error}; expected a folder, or a URI as s3://bucket/folder") from None

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
        infos = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        start = len(path.rstrip("/")) + 1
        entries = [
            Entry(info.path[start:], info.size, info.mtime_ns) for info in infos if info.type == fs.FileType.File
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def entry(self, name: str) -> Entry | None:
        """One file, or None where there is no such file."""
        from pyarrow import fs

        system, path = self._open
        info = system.get_file_info(f"{path}/{name}")
        return Entry(name, info.size, info.mtime_ns) if info.type == fs.FileType.File else None

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A file opened for random access."""
        system, path = self._open
        with system.open_input_file(f"{path}/{name}") as file:
            yield file

    def read(self, name: str) -> bytes | None:
        """The contents of a file, or None where there is no such file."""
        if self.entry(name) is None:
            return None
        with self.open(name) as file:
            data: bytes = file.read()
            return data

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically, replacing one that is there.

        On a disk it is staged, flushed and renamed. An object store shows an object once it was sent whole.
        """
        if (folder := self.local) is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, data)
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
    """A folder and None; or, where a file is named, its folder and the name of the file."""
    from pyarrow import fs

    system, path = Folder(where)._open
    kind = system.get_file_info(path).type
    if kind == fs.FileType.NotFound:
        problem = "no such file or folder. Expected a file or a folder to label; check with: ls"
        raise DataError(problem, "no-file", location=Location(where))
    if kind == fs.FileType.Directory:
        return Folder(where), None
    parent, name = folder_of(where), path.rstrip("/").rpartition("/")[2]
    return Folder(parent or ("/" if where.startswith("/") else ".")), [name]
