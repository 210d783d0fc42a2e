"""Lines of a text file exactly as written: plain or gzip, any encoding, only a line feed ends a line."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from warmstart.data.findings import Findings
from warmstart.errors import DataError

_MARKS = {  # longest first: the UTF-32 mark starts with the UTF-16 one
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def lines(file: str, encoding: str, findings: Findings) -> Iterator[str]:
    """Give each line with its line end; U+2028, form feeds and lone CRs are text like any other."""
    _check_encoding(file, encoding)
    try:
        with _open(file) as raw:
            head = raw.peek(4)[:4]
            _check_start(file, head, encoding)
            text = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n")
            first = text.readline()
            if first.startswith("\ufeff") or head.startswith(codecs.BOM_UTF8):
                findings.add("bom", "note", "starts with a byte order mark, which was skipped", file, 1)
                first = first.removeprefix("\ufeff")
            if first:
                yield first
            yield from text
    except UnicodeDecodeError:
        raise _undecodable(file, encoding) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{file}: not a whole gzip file ({error}). Expected what its name says: fetch it again.", "gzip"
        ) from error


def _open(file: str) -> io.BufferedReader:
    path = Path(file)
    # GzipFile reads and peeks like a BufferedReader, which is all that is asked of it here.
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _check_encoding(file: str, encoding: str) -> None:
    try:
        "".encode(encoding)  # refuses, unlike codecs.lookup, the codecs that are not between text and bytes
    except LookupError:
        raise DataError(
            f"{file}: Python knows no encoding {encoding!r}. Say for example --encoding utf-8, latin-1, "
            "cp1252, shift_jis or utf-16 (data.encoding).",
            "encoding-name",
        ) from None


def _check_start(file: str, head: bytes, encoding: str) -> None:
    """Refuse bytes at the start that contradict the stated encoding."""
    if head.startswith(b"\x1f\x8b") and not file.lower().endswith(".gz"):
        raise DataError(f"{file}: holds gzip-compressed bytes. Expected text: rename the file to {file}.gz", "gzip")
    stated = codecs.lookup(encoding).name
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), "")
    if marked and not stated.startswith(marked):
        raise DataError(
            f"{file}:1: starts with a {marked} byte order mark, and the encoding stated is {encoding}. "
            f"Say --encoding {marked} (data.encoding: {marked}).",
            "encoding-mark",
        )
    if stated in ("utf-16", "utf-32") and head and not marked:
        raise DataError(
            f"{file}:1: no byte order mark, so {stated} does not say which byte comes first. "
            f"Say --encoding {stated}-le or {stated}-be (data.encoding).",
            "encoding-mark",
        )


def _undecodable(file: str, encoding: str) -> DataError:
    """Find the first bad byte by a second reading, since the first one knows only its buffer."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    line, column, at, found = 1, 1, "", ""
    with _open(file) as raw:
        while not at:
            chunk = raw.read(1 << 16)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                text = error.object[: error.start].decode(encoding, "ignore")
                found = f"byte 0x{error.object[error.start]:02X}"
                at = error.reason
            line += text.count("\n")
            # The column starts anew after the last line feed of the chunk.
            column = len(text) - text.rfind("\n") if "\n" in text else column + len(text)
            if not chunk:
                break
    advice = "cp1252 or latin-1" if codecs.lookup(encoding).name == "utf-8" else "utf-8"
    return DataError(
        f"{file}:{line}: {found} at column {column} is not {encoding} ({at}). If the file is in another "
        f"encoding, state it, for example --encoding {advice} (data.encoding).",
        "encoding",
    )
