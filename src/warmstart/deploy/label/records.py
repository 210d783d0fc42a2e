"""Records of a file one by one, a broken one among them: it is told, and the next one is read."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warmstart.data.formats.delimited import LONGEST_CELL
from warmstart.data.formats.jsonl import parse, unique
from warmstart.data.source import Source, format_of
from warmstart.deploy.label.locations import Folder
from warmstart.errors import DataError, RecipeError

FORMATS = ("csv", "tsv", "jsonl", "parquet")
LONGEST_LINE = 1 << 27
LONGEST_RECORD = 1 << 20
"""Bytes of a row with quoted cells. Past this a quote was left open, and its first line alone is at fault."""
Item = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """One record: its values by the file's names of them, or what is wrong with it.

    Attributes:
        size: Bytes it takes in the file; 0 in Parquet.
        raw: What stands there, for people.
    """

    item: Item | None
    error: str = ""
    size: int = 0
    raw: bytes | None = None

    @property
    def text(self) -> str | None:
        """The record as text that can be stored anywhere."""
        if self.raw is not None:
            return self.raw.decode("utf-8", "backslashreplace").rstrip("\r\n")
        return None if self.item is None else as_text(self.item)


def as_text(value: Any) -> str:
    """A value as JSON; what JSON does not know as Python writes it, and half characters as escapes."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()


def check_format(name: str, source: Source) -> str:
    """The format of a file, if it can be cut into shards."""
    found = format_of(name, source)
    if found not in FORMATS:
        raise RecipeError(f"{name}: found format {found}; a corpus is read from {', '.join(FORMATS)}")
    # Lines are found by their bytes, so that a shard can begin in the middle of a file.
    try:
        plain = 'a\n,"\t'.encode(source.encoding) == b'a\n,"\t'
    except LookupError:
        raise RecipeError(f"--encoding {source.encoding}: Python knows no such encoding") from None
    if found != "parquet" and not plain:
        raise RecipeError(f"--encoding {source.encoding}: expected one that has ASCII in it; convert to UTF-8 first")
    return found


def text_records(folder: Folder, name: str, source: Source, start: int = 0) -> Iterator[Found]:
    """The records of a text file from a byte of the (unpacked) text on, where a record begins; 0 for all of them.

    With `start` 0, a byte order mark and a header are no records, but their bytes count to the first one's size.
    """
    format = check_format(name, source)
    begin = len(codecs.BOM_UTF8) if next(_lines(folder, name), b"").startswith(codecs.BOM_UTF8) else 0
    head = _Head(name, source, format)
    if format != "jsonl":
        begin += head.read(_lines(folder, name, begin))
    before = 0 if start else begin
    lines = _lines(folder, name, start or begin)
    for found in _objects(name, lines, source.encoding) if format == "jsonl" else head.rows(lines):
        yield replace(found, size=found.size + before)
        before = 0


class _Head:
    """What the first record of a delimited file says of all the others: names, or how many cells there are."""

    def __init__(self, name: str, source: Source, format: str) -> None:
        self.name = name
        self.source = source
        self.delimiter = "\t" if format == "tsv" else ","
        self.quoted = (source.quotes or ("none" if format == "tsv" else "double")) == "double"
        self.names: list[str] = []

    def read(self, lines: Iterator[bytes]) -> int:
        """Take the names from the start of the file; gives the bytes that are no row."""
        first = next(self._cells(lines), None)
        if first is None:
            return 0
        size, _, cells = first
        if isinstance(cells, str) or not cells:
            raise DataError(f"{self.name}:1: {cells or 'a blank line'}; expected a first row with cells", "delimited")
        self.names = cells if self.source.header else [str(number + 1) for number in range(len(cells))]
        if len(set(self.names)) != len(self.names):
            raise DataError(f"{self.name}:1: the header names a column twice; rename one", "header-repeated")
        return size if self.source.header else 0

    def rows(self, lines: Iterator[bytes]) -> Iterator[Found]:
        """The rows as values by name."""
        width = len(self.names)
        for size, raw, cells in self._cells(lines):
            if isinstance(cells, str):
                yield Found(None, cells, size, raw)
            elif not cells:
                yield Found(None, "a blank line; expected a row", size, raw)
            elif len(cells) < width or (len(cells) > width and self.source.extra_columns == "refuse"):
                yield Found(None, f"found {len(cells)} cells, expected {width}", size, raw)
            elif any("\udc80" <= character <= "\udcff" for cell in cells for character in cell if character > "\ud7ff"):
                yield Found(None, f"holds bytes that are not {self.source.encoding}", size, raw)
            else:
                yield Found(dict(zip(self.names, cells, strict=False)), "", size, raw)

    def _cells(self, lines: Iterator[bytes]) -> Iterator[tuple[int, bytes, list[str] | str]]:
        """Of each record its size, its bytes, and its cells or what is wrong."""
        if not self.quoted:
            for line in lines:
                body = self._text(line).removesuffix("\n").removesuffix("\r")
                yield len(line), line, body.split(self.delimiter) if body else []
            return
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
        again: deque[bytes] = deque()
        while True:
            used: list[bytes] = []
            try:
                text = self._feed(lines, again, used)
                cells: list[str] | str = next(csv.reader(text, delimiter=self.delimiter, strict=True))
            except StopIteration:
                return
            except csv.Error as error:
                # Only the line where it began: a quote that was left open must not take the rows after it along.
                again.extendleft(reversed(used[1:]))
                used, cells = used[:1], f"not readable as delimited text: {error}"
            yield sum(map(len, used)), b"".join(used), cells

    def _feed(self, lines: Iterator[bytes], again: deque[bytes], used: list[bytes]) -> Iterator[str]:
        size = 0
        while (line := again.popleft() if again else next(lines, None)) is not None:
            used.append(line)
            size += len(line)
            if len(used) > 1 and size > LONGEST_RECORD:
                raise csv.Error(f"a quoted cell is not closed within {LONGEST_RECORD:,} bytes")
            yield self._text(line)

    def _text(self, line: bytes) -> str:
        return line.decode(self.source.encoding, "surrogateescape")


def _objects(name: str, lines: Iterator[bytes], encoding: str) -> Iterator[Found]:
    """The objects of a JSONL file."""
    decoder = json.JSONDecoder(object_pairs_hook=unique)
    for line in lines:
        try:
            text = line.decode(encoding)
            if text.isspace():
                yield Found(None, "a blank line; expected an object", len(line), line)
            else:
                yield Found(parse(name, 0, text, decoder), "", len(line), line)
        except UnicodeDecodeError as error:
            yield Found(None, f"byte 0x{line[error.start]:02X} at {error.start + 1} is not {encoding}", len(line), line)
        except DataError as error:
            yield Found(None, str(error).removeprefix(f"{name}:0:").strip(), len(line), line)


def _lines(folder: Folder, name: str, start: int = 0) -> Iterator[bytes]:
    """Lines with their ends, from a byte of the text on; packed text has to be unpacked up to there."""
    with folder.open(name) as raw:
        packed = name.lower().endswith(".gz")
        file: Any = gzip.GzipFile(fileobj=raw) if packed else io.BufferedReader(raw, 1 << 20)
        file.seek(start)
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise DataError(f"{name}: a line of more than {LONGEST_LINE:,} bytes; is it another format?")
            yield line


def parquet_records(folder: Folder, name: str, first: int, rows: int, columns: Sequence[str]) -> Iterator[Found]:
    """Rows of a Parquet file, from the one numbered `first` (0 the first of all) on."""
    import pyarrow.parquet as pq

    with folder.open(name) as raw, pq.ParquetFile(raw) as file:
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
                part = batch.slice(low, high - low)
                values = [_plain(column) for column in part.columns]
                for cells in zip(*values, strict=True):
                    item = dict(zip(part.schema.names, cells, strict=True))
                    bad = next((key for key, one in item.items() if isinstance(one, Broken)), None)
                    yield Found(None, f"{bad!r} holds bytes that are not UTF-8", 0, item[bad]) if bad else Found(item)
            start += batch.num_rows


class Broken(bytes):
    """Bytes that a file calls text, and that are none."""


def _plain(column: Any) -> list[Any]:
    """A column's values; Arrow itself does not look whether text is UTF-8."""
    import pyarrow as pa

    try:
        found: list[Any] = column.to_pylist()
        return found
    except UnicodeDecodeError:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise
        return [_decoded(value) for value in column.cast(pa.binary()).to_pylist()]


def _decoded(value: bytes | None) -> Any:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return Broken(value or b"")
