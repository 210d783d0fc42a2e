"""Records of a file one by one, a broken one among them: it comes with what is wrong with it, and the next one is read.

The parsing is that of `data/formats`, so a row is the same row in training and here. What is added is for shards: the
bytes of each record, and a start in the middle of a file.
"""

from __future__ import annotations

import codecs
import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warmstart.data.compression import unpacked
from warmstart.data.faults import Fault
from warmstart.data.formats.delimited import Dialect, column_names, parse_rows, width_fault
from warmstart.data.formats.jsonl import parse_object
from warmstart.data.schema import Row, Value
from warmstart.data.source import Format, Source, format_of
from warmstart.deploy.label.locations import Folder
from warmstart.errors import DataError, Location, RecipeError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("csv", "tsv", "jsonl", "parquet")
MAX_LINE = 1 << 27
"""Bytes."""
MAX_ROW = 1 << 20
"""Characters of a row of several lines. A longer one means that a quote was left open: only its first line is at
fault."""


@dataclass(frozen=True)
class FileRecord:
    """One record: its values by the file's column names, or what is wrong with it.

    Attributes:
        size: The bytes it takes in the file; 0 in Parquet.
        raw: Its bytes, to show to people.
    """

    item: Row | None
    error: str = ""
    size: int = 0
    raw: bytes | None = None

    @property
    def text(self) -> str | None:
        """The record as text that can be stored anywhere."""
        if self.raw is not None:
            return self.raw.decode("utf-8", "backslashreplace").rstrip("\r\n")
        return None if self.item is None else as_text(self.item)


def as_text(value: Value) -> str:
    """A value as JSON; what JSON does not know as Python writes it, and lone surrogates as escapes."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()


def check_format(name: str, source: Source) -> Format:
    """The format of a file, if it can be cut into shards."""
    format = format_of(name, source)
    if format not in FORMATS:
        raise RecipeError(f"{name}: found format {format}; a corpus is read from {', '.join(FORMATS)}")
    # Lines are found by their bytes, so that a shard can begin in the middle of a file.
    try:
        plain = 'a\n,"\t'.encode(source.encoding) == b'a\n,"\t'
    except LookupError:
        raise RecipeError(f"--encoding {source.encoding}: Python has no such encoding") from None
    if format != "parquet" and not plain:
        raise RecipeError(
            f"--encoding {source.encoding}: expected one that contains ASCII; convert the file to UTF-8 first"
        )
    return format


def text_records(folder: Folder, name: str, source: Source, start: int = 0) -> Iterator[FileRecord]:
    """The records of a text file from a byte of the (uncompressed) text on, where a record begins; 0 for all of them.

    With `start` 0, a byte order mark and a header are not records, but their bytes count as the first one's.
    """
    format = check_format(name, source)
    begin = len(codecs.BOM_UTF8) if next(_lines(folder, name), b"").startswith(codecs.BOM_UTF8) else 0
    names: list[str] = []
    dialect = Dialect.of(format, source)
    if format != "jsonl":
        names, size = _read_names(name, _lines(folder, name, begin), source, dialect)
        begin += size
    before = 0 if start else begin
    lines = _lines(folder, name, start or begin)
    records = _objects(lines, source.encoding) if format == "jsonl" else _rows(lines, names, source, dialect)
    for record in records:
        yield replace(record, size=record.size + before)
        before = 0


def _read_names(name: str, lines: Iterator[bytes], source: Source, dialect: Dialect) -> tuple[list[str], int]:
    """The columns of a delimited file, and the bytes of its header."""
    decoded = _DecodedLines(lines, source.encoding)
    first = next(parse_rows(decoded, dialect, MAX_ROW), None)
    if first is None:
        return [], 0
    try:
        if first.fault:
            raise first.fault
        if not first.cells:
            raise Fault("a blank line. Expected a first row with cells.", "blank-line")
        return column_names(first.cells, source), len(decoded.take(first.lines)) if source.header else 0
    except Fault as fault:
        raise fault.at(Location(name, 1)) from None


def _rows(lines: Iterator[bytes], names: list[str], source: Source, dialect: Dialect) -> Iterator[FileRecord]:
    """The rows of a delimited file."""
    decoded = _DecodedLines(lines, source.encoding)
    for row in parse_rows(decoded, dialect, MAX_ROW):
        raw = decoded.take(row.lines)
        fault = row.fault
        if not fault and not row.cells:
            fault = Fault("a blank line. Expected a row.", "blank-line")
        fault = fault or width_fault(len(row.cells), len(names), source, dialect)
        if not fault and not _is_text(row.cells):
            fault = Fault(f"holds bytes that are not {source.encoding}", "encoding")
        item = None if fault else dict(zip(names, row.cells, strict=False))
        yield FileRecord(item, str(fault or ""), len(raw), raw)


def _objects(lines: Iterator[bytes], encoding: str) -> Iterator[FileRecord]:
    """The objects of a JSONL file."""
    for line in lines:
        item, error = None, ""
        try:
            text = line.decode(encoding)
            if text.isspace():
                error = "a blank line. Expected an object."
            else:
                item = parse_object(text)
        except UnicodeDecodeError as problem:
            error = f"byte 0x{line[problem.start]:02X} at position {problem.start + 1} is not {encoding}"
        except Fault as fault:
            error = str(fault)
        yield FileRecord(item, error, len(line), line)


class _DecodedLines:
    """Lines as text, bytes that cannot be decoded as lone surrogates; keeps the bytes until they are taken."""

    def __init__(self, lines: Iterator[bytes], encoding: str) -> None:
        self._lines = lines
        self._encoding = encoding
        self._pending: deque[bytes] = deque()

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._pending.append(line)
            yield line.decode(self._encoding, "surrogateescape")

    def take(self, count: int) -> bytes:
        """The bytes of the next so many lines, from the first one not yet taken."""
        return b"".join(self._pending.popleft() for _ in range(count))


def _is_text(cells: list[str]) -> bool:
    """Whether all bytes could be decoded."""
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(folder: Folder, name: str, start: int = 0) -> Iterator[bytes]:
    """Lines with their ends, from a byte of the text on; a compressed file has to be uncompressed up to there."""
    with folder.open(name) as raw:
        file = unpacked(io.BufferedReader(raw, 1 << 20), name, raw.size())
        file.seek(start)
        while line := file.readline(MAX_LINE):
            if len(line) == MAX_LINE:
                problem = f"a line of more than {MAX_LINE:,} bytes; is it another format?"
                raise DataError(problem, location=Location(name))
            yield line


def parquet_records(folder: Folder, name: str, first: int, rows: int, columns: Sequence[str]) -> Iterator[FileRecord]:
    """Rows of a Parquet file, from the one numbered `first` (0 for the first of all) on."""
    import pyarrow.parquet as pq

    with folder.open(name) as raw, pq.ParquetFile(raw, page_checksum_verification=True) as file:
        groups: list[int] = []
        start = before = 0
        for number in range(file.num_row_groups):
            size = file.metadata.row_group(number).num_rows
            if before < first + rows and before + size > first:
                start = start if groups else before
                groups.append(number)
            before += size
        for batch in file.iter_batches(1000, row_groups=groups, columns=list(dict.fromkeys(columns))):
            low, high = max(first - start, 0), min(first + rows - start, batch.num_rows)
            if low < high:
                yield from _batch_records(batch.slice(low, high - low))
            start += batch.num_rows


def _batch_records(batch: pa.RecordBatch) -> Iterator[FileRecord]:
    values = [_to_python(column) for column in batch.columns]
    for cells in zip(*values, strict=True):
        item = dict(zip(batch.schema.names, cells, strict=True))
        broken = next((name for name, value in item.items() if isinstance(value, BrokenText)), None)
        if broken is None:
            yield FileRecord(item)
        else:
            yield FileRecord(None, f"{broken!r} holds bytes that are not UTF-8", 0, item[broken])


class BrokenText(bytes):
    """Bytes that a Parquet file declares as text, but that are not UTF-8."""


def _to_python(column: pa.Array) -> list[Value]:
    """A column's values; Arrow itself does not check that text is UTF-8."""
    import pyarrow as pa

    try:
        values: list[Value] = column.to_pylist()
        return values
    except UnicodeDecodeError:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise
        return [_decode(value) for value in column.cast(pa.binary()).to_pylist()]


def _decode(value: bytes | None) -> str | BrokenText | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return BrokenText(value or b"")
