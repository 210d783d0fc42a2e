"""Rows of CSV and TSV files, cell for cell as written."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence

from warmstart.data.findings import Findings
from warmstart.data.lines import lines
from warmstart.data.source import Format, Record, Source, Wanted, missing_column
from warmstart.errors import DataError

LONGEST_CELL = 1 << 27
"""Characters. Past this a quote was left open; without a limit one open quote would load the whole file."""

_Cells = Iterator[tuple[int, list[str]]]


def records(
    file: str, format: Format, source: Source, wanted: Sequence[Wanted], findings: Findings
) -> Iterator[Record]:
    """Give each row's line number and its wanted cells; a wrong number of cells is an error."""
    delimiter = "\t" if format == "tsv" else ","
    quoted = (source.quotes or ("none" if format == "tsv" else "double")) == "double"
    text = lines(file, source.encoding, findings)
    rows = _filled(
        file,
        _quoted(file, text, delimiter, findings) if quoted else _plain(file, text, delimiter, findings),
        findings,
    )
    first = next(rows, None)
    if first is None:
        return
    line, cells = first
    width = len(cells)
    names = _header(file, line, cells) if source.header else [str(number + 1) for number in range(width)]
    for want in wanted:
        if want.name not in names:
            raise missing_column(f"{file}:{line}", want, names, source)
    picked = [names.index(want.name) for want in wanted]
    if not source.header:
        yield line, [cells[index] for index in picked]
    for line, cells in rows:
        if len(cells) != width:
            _wrong_width(file, line, len(cells), width, source, quoted, findings)
        yield line, [cells[index] for index in picked]


def _plain(file: str, text: Iterator[str], delimiter: str, findings: Findings) -> _Cells:
    """Rows without quoting: every tab (or comma) separates, every line feed ends a row."""
    ends = _Ends()
    for number, line in enumerate(text, 1):
        end = _end(file, number, line)
        ends.see(end, number)
        body = line[: -len(end)] if end else line
        yield number, body.split(delimiter) if body else []
    ends.report(file, findings)


def _quoted(file: str, text: Iterator[str], delimiter: str, findings: Findings) -> _Cells:
    """Rows with quoted cells, by Python's csv module; a row is numbered by the line where it starts."""
    last = ""

    def watched() -> Iterator[str]:
        nonlocal last
        for last in text:  # noqa: UP028 - the assignment is the point: the row's last line is looked at below
            yield last

    ends = _Ends()
    reader = csv.reader(watched(), delimiter=delimiter, strict=True)
    if csv.field_size_limit() < LONGEST_CELL:
        csv.field_size_limit(LONGEST_CELL)
    start = 1
    try:
        for cells in reader:
            end = _end(file, reader.line_num, last)
            if end == "\r\n" and last.endswith("\r\r\n"):
                raise csv.Error("new-line character seen in unquoted field")
            ends.see(end, start)
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise _fault(file, start, str(error), delimiter) from None
    ends.report(file, findings)


def _fault(file: str, line: int, reason: str, delimiter: str) -> DataError:
    tab = " If quotes are part of the text, say --quotes none (data.quotes: none)."
    if "unexpected end of data" in reason or "field larger" in reason:
        kind = "quote-open"
        what = 'a quoted cell that starts in this row is never closed. Close it; a quote inside is "".'
    elif "new-line character" in reason:
        kind = "lone-cr"
        what = (
            "a carriage return stands alone in an unquoted cell. Expected rows that end in LF or CR LF: "
            "quote the cell, or convert the file's line ends."
        )
        tab = ""
    elif "expected after" in reason:
        kind = "quote-after"
        what = 'text follows a closing quote. Expected "" for a quote inside a quoted cell.'
    else:
        kind = "delimited"
        what = f"not readable as delimited text: {reason}."
    return DataError(f"{file}:{line}: {what}{tab}", kind)


def _filled(file: str, rows: _Cells, findings: Findings) -> _Cells:
    """Give the rows that are not blank; blank lines are allowed, and noted, only at the very end."""
    blank = count = 0
    for line, cells in rows:
        if not cells:
            blank, count = blank or line, count + 1
        elif blank:
            raise DataError(
                f"{file}:{blank}: a blank line between rows. Expected a row: remove the line or fill it.", "blank-line"
            )
        else:
            yield line, cells
    if blank:
        findings.add("blank-end", "note", "blank lines at the end of the file, skipped", file, blank, count)


def _header(file: str, line: int, names: list[str]) -> list[str]:
    if any("\0" in name for name in names):
        raise DataError(
            f"{file}:{line}: NUL characters in the header. If the file is UTF-16, say --encoding utf-16-le.",
            "header-nul",
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(
            f"{file}:{line}: the header names {repeated[0]!r} more than once. Expected one name a column: "
            "rename one, or, if this is a row and no header, say --no-header (data.header: false).",
            "header-repeated",
        )
    return names


def _wrong_width(
    file: str, line: int, found: int, width: int, source: Source, quoted: bool, findings: Findings
) -> None:
    if found > width and source.extra_columns == "ignore":
        findings.add("extra-cells", "warning", f"{found} cells, expected {width}; the extra are ignored", file, line)
        return
    advice = "Complete the row."
    if found > width:
        quote = "Quote a cell that holds the separator" if quoted else "If cells are quoted, say --quotes double"
        advice = f"{quote}; or, to ignore cells past the first {width}, say --extra-columns ignore."
    elif not quoted:
        advice += " If its cells are quoted and hold line ends, say --quotes double (data.quotes)."
    first = "the header has" if source.header else "the first row has"
    kind = "cells-many" if found > width else "cells-few"
    raise DataError(f"{file}:{line}: found {found} cells, expected {width} as {first}. {advice}", kind)


def _end(file: str, number: int, line: str) -> str:
    """Say how a row's last line ends; a lone CR at the file's end could be text or half a line end."""
    if line.endswith("\n"):
        return "\r\n" if line.endswith("\r\n") else "\n"
    if line.endswith("\r"):
        raise DataError(
            f"{file}:{number}: the file ends in a carriage return alone. End it with LF or CR LF.", "lone-cr"
        )
    return ""


class _Ends:
    """How rows end: each kind of line end with its number and where it was seen first."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def see(self, end: str, line: int) -> None:
        """Count the end of the row that starts in this line."""
        self._count[end] += 1
        self._first.setdefault(end, line)

    def report(self, file: str, findings: Findings) -> None:
        """Tell of a file that has both kinds, at the first row that ends as the fewer do."""
        windows, unix = self._count["\r\n"], self._count["\n"]
        if windows and unix:
            message = f"{windows} rows end in CR LF and {unix} in LF; a CR at a row's end was not taken for text"
            line = self._first["\r\n" if windows < unix else "\n"]
            findings.add("line-ends", "warning", message, file, line, min(windows, unix))
