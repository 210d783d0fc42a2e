"""Folders by path or URI: their files, each of which is there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

from warmstart.deploy.label.object_stores import folder_of, open_uri
from warmstart.deploy.label.retries import ResultT, is_storage_fault, retried
from warmstart.deploy.label.stored_file import StoredFile
from warmstart.errors import DataError, Location, RecipeError
from warmstart.storage.artifacts import Checksum
from warmstart.storage.files import write_bytes
from warmstart.storage.folders import flush_folder, make_folder


@dataclass(frozen=True)
class Entry:
    """A file in a folder: its name from there, its size, and when it was last written, in nanoseconds."""

    name: str
    bytes: int
    modified: int


@dataclass(frozen=True)
class Folder:
    """A folder, by its path or by a URI that Arrow knows: `s3://`, `gs://`, `file://` and others.

    It can be sent to other processes, which open it themselves. Each call is retried while the file system or the
    network fails; an `OutageError` says that it failed for too long.

    Attributes:
        retry_timeout: Seconds that a fault is retried; 0 for not at all.
        anchor: A file that is there, or the folder is not: an empty folder where a disk was mounted is an outage.
    """

    uri: str
    retry_timeout: float = 0
    anchor: str = ""

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

    def files(self, below: str = "") -> list[Entry]:
        """All files below the folder, or below a folder in it, by name; none where there is no such folder."""
        from pyarrow import fs

        system, path = self._open
        start = len(path.rstrip("/")) + 1
        selector = fs.FileSelector(f"{path}/{below}" if below else path, recursive=True, allow_not_found=True)

        def list_files() -> list[Entry]:
            self._check_there()
            infos = [info for info in system.get_file_info(selector) if info.type == fs.FileType.File]
            return sorted((Entry(info.path[start:], info.size, info.mtime_ns) for info in infos), key=_by_name)

        return self._retried(list_files, below)

    def entry(self, name: str) -> Entry | None:
        """One file, or None where there is no such file."""
        return self._retried(lambda: self._look_up(name), name)

    def existing(self, name: str) -> Entry:
        """One file that is known to be there: if it is not, that is an outage."""

        def existing() -> Entry:
            if (entry := self._look_up(name)) is None:
                raise FileNotFoundError("no such file")
            return entry

        return self._retried(existing, name)

    @contextmanager
    def open(self, name: str) -> Iterator[StoredFile]:
        """A file opened for random access; if it is not there, that is an outage."""
        system, path = self._open
        with StoredFile(name, lambda: system.open_input_file(f"{path}/{name}"), self._retried) as file:
            yield file

    def etag(self, name: str) -> str | None:
        """What an object store calls the version of a file; None where it has no such thing, as on a disk."""
        if self.local is not None:
            return None
        system, path = self._open

        def read_metadata() -> Mapping[bytes, bytes]:
            with system.open_input_file(f"{path}/{name}") as file:
                return dict(file.metadata())

        tag = self._retried(read_metadata, name).get(b"ETag")
        return tag.decode() if tag is not None else None

    def read(self, name: str) -> bytes | None:
        """The contents of a file, or None where there is no such file."""
        if self.entry(name) is None:
            return None
        with self.open(name) as file:
            return file.readall()

    def checksum(self, name: str) -> Checksum | None:
        """The size and SHA-256 of a file, read in pieces; None where there is no such file."""
        if self.entry(name) is None:
            return None
        with self.open(name) as file:
            return {"bytes": file.size(), "sha256": file.sha256()}

    def create(self) -> None:
        """Make the folder, where folders have to be made."""
        if (folder := self.local) is not None:
            self._retried(lambda: make_folder(folder), "")

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically, replacing one that is there.

        On a disk it is staged, flushed and renamed. An object store shows an object once it was sent whole.
        """
        self._retried(lambda: self._write(name, data), name)

    def settle(self, *below: str) -> None:
        """Wait until the names in folders below this one are on disk: who wrote the files may have died before."""
        if (folder := self.local) is not None:
            for name in below:
                self._retried(partial(flush_folder, folder / name), name)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        system, path = self._open

        def remove() -> None:
            if self._look_up(name) is not None:
                system.delete_file(f"{path}/{name}")

        self._retried(remove, name)

    def _look_up(self, name: str) -> Entry | None:
        from pyarrow import fs

        system, path = self._open
        info = system.get_file_info(f"{path}/{name}")
        if info.type == fs.FileType.File:
            return Entry(name, info.size, info.mtime_ns)
        self._check_there()
        return None

    def _write(self, name: str, data: bytes) -> None:
        self._check_there()
        if (folder := self.local) is not None:
            if self.anchor:  # The folder itself is never made anew: where it is away, it shall come back.
                for parent in reversed(PurePosixPath(name).parents[:-1]):
                    make_folder(folder / parent, parents=False)
            else:
                make_folder((folder / name).parent)
            write_bytes(folder / name, data)
            return
        system, path = self._open
        with system.open_output_stream(f"{path}/{name}") as file:
            file.write(data)

    def _check_there(self) -> None:
        from pyarrow import fs

        system, path = self._open
        if self.anchor and system.get_file_info(f"{path}/{self.anchor}").type != fs.FileType.File:
            raise FileNotFoundError(f"the folder is not there, or is another one: it has no {self.anchor}")

    def _retried(self, attempt: Callable[[], ResultT], name: str) -> ResultT:
        where = f"{self.uri.rstrip('/')}/{name}" if name else self.uri
        return retried(attempt, where, self.retry_timeout, is_storage_fault)


def _by_name(entry: Entry) -> str:
    return entry.name


def split(where: str, retry_timeout: float = 0) -> tuple[Folder, list[str] | None]:
    """A folder and None; or, where a file is named, its folder and the name of the file."""
    from pyarrow import fs

    place = Folder(where, retry_timeout)
    system, path = place._open
    kind = place._retried(lambda: system.get_file_info(path), "").type
    if kind == fs.FileType.NotFound:
        problem = "no such file or folder. Expected a file or a folder to label; check with: ls"
        raise DataError(problem, "no-file", location=Location(where))
    if kind == fs.FileType.Directory:
        return place, None
    parent, name = folder_of(where), path.rstrip("/").rpartition("/")[2]
    return replace(place, uri=parent or ("/" if where.startswith("/") else ".")), [name]
