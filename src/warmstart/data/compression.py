"""The bytes of a file as they were before it was compressed: by gzip, by Zstandard, or as the one file of a zip."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from pathlib import PurePath
from typing import BinaryIO, cast

from warmstart.errors import DataError, Location, MissingExtraError

SUFFIXES = (".gz", ".zip", ".zst")
MAX_RATIO, FREE_BYTES = 250, 1 << 26
"""Data that grows more than so many times when it is unpacked is refused past so many bytes: text compresses 3 to 20
times, a bomb a thousand times and more."""
_ZSTD_CHUNK = 1 << 11
"""Bytes unpacked at a time: even of a bomb, the content then fits into memory."""
_MARKS = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"PK\x03\x04": ".zip"}
"""How compressed files begin."""


def compression_of(file: str) -> str:
    """The suffix by which a file is compressed; empty for a plain one."""
    suffix = PurePath(file.lower()).suffix
    return suffix if suffix in SUFFIXES else ""


def disguised(head: bytes) -> str:
    """The suffix that a file with these first bytes should have, if they are compressed."""
    return next((suffix for mark, suffix in _MARKS.items() if head.startswith(mark)), "")


def unpacked(raw: BinaryIO, file: str, size: int) -> io.BufferedReader:
    """Read the content of an open file, uncompressed if its name says so.

    Args:
        raw: The file as it is stored; that of a zip must be seekable.
        size: How many bytes it has, to notice content that grows beyond reason.
    """
    kind = compression_of(file)
    if not kind:
        return raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw), 1 << 18)
    return io.BufferedReader(_Unpacked(raw, file, kind, size), 1 << 18)


def check_growth(file: str, size: int, content: int, free: int | None = None) -> None:
    """Refuse a file of some size whose content is that of a bomb.

    Args:
        free: Bytes that any file may unpack to; `FREE_BYTES` by default.
    """
    if content > (FREE_BYTES if free is None else free) and content > MAX_RATIO * size:
        raise DataError(
            f"unpacks to more than {content >> 20:,} MB, over {MAX_RATIO} times its size. Expected data: unpack it "
            "yourself if you trust it.",
            "bomb",
            location=Location(file),
        )


class _Unpacked(io.RawIOBase):
    """A compressed file's content; whatever is wrong with it is an error that names the file."""

    def __init__(self, raw: BinaryIO, file: str, kind: str, size: int) -> None:
        self._raw, self._file, self._size = raw, file, size
        self._position = 0
        try:
            self._content = _open(raw, file, kind)
        except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
            raise self._damaged(error) from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go forward to a byte of the content, by reading up to it."""
        target = offset + (self._position if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END or target < self._position:
            raise io.UnsupportedOperation("a compressed file is read forward only")
        while self._position < target and self.read(min(1 << 20, target - self._position)):
            pass
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._content.read(len(buffer))
        except (EOFError, OSError, zlib.error, zipfile.BadZipFile, RuntimeError, _zstd_error()) as error:
            raise self._damaged(error) from error
        self._position += len(data)
        check_growth(self._file, self._size, self._position)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()

    def _damaged(self, error: Exception) -> DataError:
        return DataError(
            f"cannot be unpacked ({error}). Expected what its name says: download it again.",
            "compression",
            location=Location(self._file),
        )


def _open(raw: BinaryIO, file: str, kind: str) -> BinaryIO:
    if kind == ".gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if kind == ".zst":
        return cast("BinaryIO", _ZstdFile(raw, file))
    return _only_member(zipfile.ZipFile(raw), file)


class _ZstdFile:
    """The content of a .zst file; unlike the library's own reader, it notices that the file was cut short."""

    def __init__(self, raw: BinaryIO, file: str) -> None:
        try:
            import zstandard
        except ImportError:
            problem = f"{file}: reading a .zst file needs zstandard: pip install 'warmstart[zstd]'"
            raise MissingExtraError(problem) from None
        self._raw, self._decompressor = raw, zstandard.ZstdDecompressor()
        self._frame = self._decompressor.decompressobj()
        self._ready = memoryview(b"")

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end of the last frame."""
        while not self._ready:
            chunk = self._raw.read(_ZSTD_CHUNK)
            if not chunk and not self._frame.eof:
                raise EOFError("the file ends inside a frame")
            if not chunk:
                return b""
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            parts = [self._frame.decompress(chunk)]
            while self._frame.eof and self._frame.unused_data:
                rest, self._frame = self._frame.unused_data, self._decompressor.decompressobj()
                parts.append(self._frame.decompress(rest))
            self._ready = memoryview(b"".join(parts))
        data, self._ready = bytes(self._ready[:size]), self._ready[size:]
        return data


def _only_member(archive: zipfile.ZipFile, file: str) -> BinaryIO:
    """The one file of a zip; what macOS adds beside it does not count."""
    members = [item for item in archive.infolist() if not item.is_dir() and not item.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        names = ", ".join(item.filename for item in members[:5]) or "none"
        problem = f"holds {len(members)} files ({names}). Expected one: unpack it, and give the files that you need."
        raise DataError(problem, "compression", location=Location(file))
    if members[0].flag_bits & 1:
        raise DataError("is encrypted. Unpack it first.", "compression", location=Location(file))
    return cast("BinaryIO", archive.open(members[0]))


def _zstd_error() -> type[Exception]:
    import sys

    module = sys.modules.get("zstandard")
    return cast("type[Exception]", module.ZstdError) if module else EOFError
