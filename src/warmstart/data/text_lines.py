"""Lines of a text file exactly as written: plain or compressed, any encoding; only a line feed ends a line."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

from warmstart.data.compression import compression_of, disguised, unpacked
from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.errors import DataError, Location

_BYTE_ORDER_MARKS = {  # longest first: the UTF-32 mark starts with the UTF-16 one
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_lines(file: str, encoding: str, findings: Findings) -> Iterator[str]:
    """Yield each line with its line end; U+2028, form feeds and lone CRs are text like any other."""
    _check_encoding(file, encoding)
    try:
        with _open(file) as raw:
            head = raw.peek(4)[:4]
            _check_start(file, head, encoding)
            text = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n")
            first = text.readline()
            if first.startswith("\ufeff") or head.startswith(codecs.BOM_UTF8):
                findings.add("bom", "note", "starts with a byte order mark, which was skipped", Location(file, 1))
                first = first.removeprefix("\ufeff")
            if first:
                yield first
            yield from text
    except UnicodeDecodeError:
        raise _undecodable(file, encoding) from None


class BlankLines:
    """The blank lines of a file: allowed, and noted, only at its end.

    Args:
        between: What they must not stand between, as `rows`.
        advice: What to do about one.
    """

    def __init__(self, file: str, between: str, advice: str) -> None:
        self.file = file
        self.between = between
        self.advice = advice
        self._first = self.count = 0

    def add(self, line: int) -> None:
        """Count a blank line."""
        self._first = self._first or line
        self.count += 1

    def take(self) -> tuple[int, Fault]:
        """The first of the blank lines seen so far, and that it is a fault: something follows them."""
        first, count = self._first, self.count
        self._first = self.count = 0
        blank = "a blank line" if count == 1 else f"{count} blank lines"
        return first, Fault(f"{blank} between {self.between}. {self.advice}", "blank-line")

    def report(self, findings: Findings) -> None:
        """Note the blank lines at the end of the file."""
        if self.count:
            message = "blank lines at the end of the file, skipped"
            findings.add("blank-end", "note", message, Location(self.file, self._first), self.count)


def _open(file: str) -> io.BufferedReader:
    path = Path(file)
    return unpacked(path.open("rb"), file, path.stat().st_size)


def _check_encoding(file: str, encoding: str) -> None:
    try:
        "".encode(encoding)  # refuses, unlike codecs.lookup, the codecs that are not between text and bytes
    except LookupError:
        raise DataError(
            f"Python has no encoding {encoding!r}. Pass for example --encoding utf-8, latin-1, "
            "cp1252, shift_jis or utf-16 (data.encoding).",
            "encoding-name",
            location=Location(file),
        ) from None


def _check_start(file: str, head: bytes, encoding: str) -> None:
    """Refuse bytes at the start that contradict the stated encoding."""
    if suffix := disguised(head):
        advice = f"rename the file to {file}{suffix}"
        if compression_of(file):
            advice = "unpack it, as it is compressed twice"
        elif suffix == ".zip":
            advice += ", or, if it is a spreadsheet, to one that ends in .xlsx or .ods"
        problem = f"holds compressed bytes ({suffix[1:]}). Expected text: {advice}"
        raise DataError(problem, "compression", location=Location(file))
    stated = codecs.lookup(encoding).name
    marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), "")
    if marked and not stated.startswith(marked):
        raise DataError(
            f"starts with a {marked} byte order mark, but the encoding is set to {encoding}. "
            f"Pass --encoding {marked} (data.encoding: {marked}).",
            "encoding-mark",
            location=Location(file, 1),
        )
    if stated in ("utf-16", "utf-32") and head and not marked:
        raise DataError(
            f"no byte order mark, so {stated} leaves open which byte comes first. "
            f"Pass --encoding {stated}-le or {stated}-be (data.encoding).",
            "encoding-mark",
            location=Location(file, 1),
        )


def _undecodable(file: str, encoding: str) -> DataError:
    """Locate the first bad byte by a second reading, since the first one only knows its buffer."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    line, column, reason, byte = 1, 1, "", ""
    with _open(file) as raw:
        while not reason:
            chunk = raw.read(1 << 16)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                text = error.object[: error.start].decode(encoding, "ignore")
                byte = f"byte 0x{error.object[error.start]:02X}"
                reason = error.reason
            line += text.count("\n")
            # Columns are counted from the last line feed of the chunk.
            column = len(text) - text.rfind("\n") if "\n" in text else column + len(text)
            if not chunk:
                break
    advice = "cp1252" if codecs.lookup(encoding).name == "utf-8" else "utf-8"
    return DataError(
        f"{byte} at column {column} is not {encoding} ({reason}). If the file is in another "
        f"encoding, state it, for example --encoding {advice} (data.encoding).",
        "encoding",
        location=Location(file, line),
    )
