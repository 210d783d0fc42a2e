"""A file of a folder, read in spite of outages: after one, it is opened again and read on from the same byte."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Any

from warmstart.errors import RunError

PIECE = 1 << 22
"""Bytes that are read at a time for a checksum."""


class StoredFile(io.RawIOBase):
    """Random access to a file that may be out of reach for a while.

    Args:
        opened: Opens it anew, as an Arrow file.
        retry: Makes an attempt again while it fails for a reason that is not in the data.
    """

    def __init__(self, name: str, opened: Callable[[], Any], retry: Callable[[Callable[[], Any], str], Any]) -> None:
        super().__init__()
        self._name, self._opened, self._retry = name, opened, retry
        self._file: Any = None
        self._at = 0
        self._size: int | None = None
        self._retry(self._reopen, name)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size or 0

    def readinto(self, buffer: Any) -> int:
        data = self._retry(lambda: self._read(len(buffer)), self._name)
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        data: bytes = self._retry(lambda: self._read(max(self.size() - self._at, 0)), self._name)
        return data

    def sha256(self) -> str:
        """The checksum of the whole file."""
        digest = hashlib.sha256()
        self.seek(0)
        while data := self._retry(lambda: self._read(PIECE), self._name):
            digest.update(data)
        return digest.hexdigest()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def _read(self, count: int) -> bytes:
        if self._file is None:
            self._reopen()
        try:
            data: bytes = self._file.read_at(count, self._at)
        except OSError:
            self._file = None
            raise
        self._at += len(data)
        return data

    def _reopen(self) -> None:
        file = self._opened()
        size = int(file.size())
        if self._size is not None and size != self._size:
            raise RunError(
                f"{self._name} was changed while it was read: found {size:,} bytes, expected {self._size:,}; put the "
                "old file back, or label the new one into another --out"
            )
        self._file, self._size = file, size
