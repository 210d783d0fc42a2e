"""Rows of CSV and TSV files, cell for cell as written."""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.source import FileColumn, Format, Record, Source, missing_columns
from warmstart.data.text_lines import BlankLines, read_lines
from warmstart.errors import Location

MAX_CELL = 1 << 27
"""Characters. A longer cell means that a quote was left open; without a limit it would load the whole file."""


@dataclass(frozen=True)
class Dialect:
    """How the lines of a delimited file become cells."""

    delimiter: str
    quoted: bool

    @classmethod
    def of(cls, format: Format, source: Source) -> Dialect:
        """The dialect of a file; by default, cells may be quoted in CSV and are not in TSV."""
        quotes = source.quotes or ("none" if format == "tsv" else "double")
        return cls(source.delimiter or ("\t" if format == "tsv" else ","), quotes == "double")


class ParsedRow(NamedTuple):
    """One row of a delimited file, or what is wrong with it.

    Attributes:
        line: The line where the row starts, counted from 1 at the first line that was given.
        lines: How many lines it takes.
        cells: None of them for a blank line, or where there is a fault.
        end: How its last line ends.
    """

    line: int
    lines: int
    cells: list[str]
    end: str
    fault: Fault | None = None


def parse_rows(lines: Iterable[str], dialect: Dialect, max_row: int | None = None) -> Iterator[ParsedRow]:
    """Yield every row; after a fault, the next row begins on the line after the one where the faulty row began.

    Args:
        lines: With their line ends.
        max_row: Characters of a row of several lines; a longer one means that a quote was left open.
    """
    return _quoted(iter(lines), dialect.delimiter, max_row) if dialect.quoted else _plain(lines, dialect.delimiter)


def column_names(cells: list[str], source: Source) -> list[str]:
    """The names of the columns from the first row: its cells, or their numbers where it is no header."""
    if not source.header:
        return [str(number + 1) for number in range(len(cells))]
    if any("\0" in name for name in cells):
        raise Fault("NUL characters in the header. If the file is UTF-16, pass --encoding utf-16-le.", "header-nul")
    repeated = [name for name, count in Counter(cells).items() if count > 1]
    if repeated:
        raise Fault(
            f"the header names {repeated[0]!r} more than once. Expected one name per column: "
            "rename one, or, if this is a row and not a header, pass --no-header (data.header: false).",
            "header-repeated",
            repeated[0],
        )
    return cells


def width_fault(width: int, expected: int, source: Source, dialect: Dialect) -> Fault | None:
    """What is wrong with a row of `width` cells; nothing where extra cells are to be ignored."""
    if width == expected or (width > expected and source.extra_columns == "ignore"):
        return None
    advice = "Complete the row."
    if width > expected:
        quote = (
            "Quote a cell that holds the separator" if dialect.quoted else "If cells are quoted, pass --quotes double"
        )
        advice = f"{quote}; or, to ignore cells past the first {expected}, pass --extra-columns ignore."
    elif not dialect.quoted:
        advice += " If its cells are quoted and hold line ends, pass --quotes double (data.quotes)."
    first = "the header has" if source.header else "the first row has"
    kind = "cells-many" if width > expected else "cells-few"
    return Fault(f"found {width} cells, expected {expected} as {first}. {advice}", kind)


def names(file: str, format: Format, source: Source) -> list[str]:
    """The names of a file's columns; none of an empty file."""
    rows = parse_rows(read_lines(file, source.encoding, Findings()), Dialect.of(format, source))
    first = next(rows, None)
    try:
        if first is not None and first.fault:
            raise first.fault
        return column_names(first.cells, source) if first else []
    except Fault as fault:
        raise fault.at(Location(file, 1)) from None


def records(
    file: str, format: Format, source: Source, columns: Sequence[FileColumn], findings: Findings
) -> Iterator[Record]:
    """Yield each row's line and its cells in `columns`; any fault is an error."""
    dialect = Dialect.of(format, source)
    rows = _strict_rows(file, parse_rows(read_lines(file, source.encoding, findings), dialect), findings)
    first = next(rows, None)
    if first is None:
        return
    line, cells = first
    try:
        if isinstance(cells, Fault):
            raise cells
        names = column_names(cells, source)
        if missing := missing_columns(columns, names, source):
            raise _other_delimiter(names, dialect) or missing
    except Fault as header_fault:
        raise header_fault.at(Location(file, line)) from None
    indices = [names.index(column.name) for column in columns]
    if not source.header:
        yield line, [cells[index] for index in indices]
    for line, cells in rows:
        if isinstance(cells, Fault):
            yield line, cells
            continue
        if len(cells) != len(names):
            if fault := width_fault(len(cells), len(names), source, dialect):
                yield line, fault
                continue
            message = f"{len(cells)} cells, expected {len(names)}; the extra ones are ignored"
            findings.add("extra-cells", "warning", message, Location(file, line))
        yield line, [cells[index] for index in indices]


def _other_delimiter(names: list[str], dialect: Dialect) -> Fault | None:
    """The fault of a header that is one cell, but would be several by another delimiter."""
    counts = {other: names[0].count(other) for other in ";\t|," if other != dialect.delimiter and len(names) == 1}
    likely = max(counts, key=counts.__getitem__, default="")
    if not likely or not counts[likely]:
        return None
    columns = ", ".join(map(repr, names[0].split(likely)[:40]))
    argument = "$'\\t'" if likely == "\t" else f"'{likely}'"
    return Fault(
        f"the header is one cell by {dialect.delimiter!r}, and {counts[likely] + 1} by {likely!r}: {columns}. If "
        f"that is right, pass --delimiter {argument} (data.delimiter).",
        "delimiter",
    )


def _strict_rows(file: str, rows: Iterable[ParsedRow], findings: Findings) -> Iterator[tuple[int, list[str] | Fault]]:
    """The line and the cells of every row, or its fault; a blank line that a row follows is one."""
    blank = BlankLines(file, "rows", "Expected a row: remove the line, or pass --drop empty.")
    ends = _LineEnds()
    for line, _, cells, end, fault in rows:
        if fault:
            yield line, fault
            continue
        ends.add(end, line)
        if cells:
            if blank.count:
                yield blank.take()
            yield line, cells
        else:
            blank.add(line)
    ends.report(file, findings)
    blank.report(findings)


def _plain(lines: Iterable[str], delimiter: str) -> Iterator[ParsedRow]:
    """Rows without quoting: every tab (or comma) separates, every line feed ends a row."""
    for number, line in enumerate(lines, 1):
        end = _line_end(line)
        body = line[: -len(end)] if end else line
        if end == "\r":
            yield ParsedRow(number, 1, [], end, _lone_cr_at_end())
        else:
            yield ParsedRow(number, 1, body.split(delimiter) if body else [], end)


def _quoted(lines: Iterator[str], delimiter: str, max_row: int | None) -> Iterator[ParsedRow]:
    """Rows with quoted cells, by Python's csv module."""
    if csv.field_size_limit() < MAX_CELL:
        csv.field_size_limit(MAX_CELL)
    again: deque[str] = deque()
    used: list[str] = []

    def feed() -> Iterator[str]:
        """The lines to read again, then the rest; not by `yield from`, which closes them when a fault ends this."""
        while again:
            used.append(again.popleft())
            yield used[-1]
        for line in lines:
            used.append(line)
            yield line

    def limited() -> Iterator[str]:
        size = 0
        for line in feed():
            size = size + len(line) if len(used) > 1 else len(line)
            if max_row is not None and size > max_row and len(used) > 1:
                raise csv.Error(f"a quoted cell is not closed within {max_row:,} characters")
            yield line

    def new_reader() -> Iterator[list[str]]:
        return csv.reader(feed() if max_row is None else limited(), delimiter=delimiter, strict=True)

    start = 1
    reader = new_reader()
    while True:
        used.clear()
        try:
            cells, fault = next(reader), None
            end = _line_end(used[-1])
            if end != "\n":
                fault = _lone_cr_at_end() if end == "\r" else _lone_cr() if used[-1].endswith("\r\r\n") else None
        except StopIteration:
            return
        except csv.Error as error:
            # Only the line where it began: a quote that was left open must not take the rows after it along.
            again.extendleft(reversed(used[1:]))
            del used[1:]
            cells, end, fault = [], "", _csv_fault(str(error))
            reader = new_reader()
        yield ParsedRow(start, len(used), [] if fault else cells, end, fault)
        start += len(used)


def _csv_fault(reason: str) -> Fault:
    hint = " If quotes are part of the text, pass --quotes none (data.quotes: none)."
    if "unexpected end of data" in reason or "field larger" in reason or "not closed" in reason:
        problem = 'a quoted cell that starts in this row is never closed. Close it; a quote inside is "".'
        return Fault(problem + hint, "quote-open")
    if "new-line character" in reason:
        return _lone_cr()
    if "expected after" in reason:
        problem = 'text follows a closing quote. Expected "" for a quote inside a quoted cell.'
        return Fault(problem + hint, "quote-after")
    return Fault(f"not readable as delimited text: {reason}.{hint}", "delimited")


def _lone_cr() -> Fault:
    return Fault(
        "a carriage return stands alone in an unquoted cell. Expected rows that end in LF or CR LF: "
        "quote the cell, or convert the file's line ends.",
        "lone-cr",
    )


def _lone_cr_at_end() -> Fault:
    """A lone CR at the end of a file could be text or half a line end."""
    return Fault("the file ends in a carriage return alone. End it with LF or CR LF.", "lone-cr")


def _line_end(line: str) -> str:
    if line[-1:] == "\n":
        return "\r\n" if line[-2:-1] == "\r" else "\n"
    return "\r" if line[-1:] == "\r" else ""


class _LineEnds:
    """How rows end: each kind of line end with its number and where it was seen first."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def add(self, end: str, line: int) -> None:
        """Count the end of the row that starts in this line."""
        self._count[end] += 1
        self._first.setdefault(end, line)

    def report(self, file: str, findings: Findings) -> None:
        """Note a file that has both kinds, at the first row with the rarer one."""
        windows, unix = self._count["\r\n"], self._count["\n"]
        if windows and unix:
            message = f"{windows} rows end in CR LF and {unix} in LF; a CR at a row's end was not taken for text"
            line = self._first["\r\n" if windows < unix else "\n"]
            findings.add("line-ends", "warning", message, Location(file, line), min(windows, unix))
