"""Rows of an .ods sheet, streamed from its XML: the text that each cell shows is stored there."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, XMLPullParser

from warmstart.data.compression import check_growth
from warmstart.data.findings import Findings
from warmstart.data.formats.sheets.container import (
    FREE_BYTES,
    LIBRARY_ERRORS,
    MAX_COLUMNS,
    MAX_ROWS,
    check_container,
    choose_sheet,
    unreadable,
)
from warmstart.data.formats.sheets.xml_parts import blocks

MAX_SPACES = 10_000
"""Spaces in a row, of which the file stores only the number."""
_TABLE, _TEXT = ("{urn:oasis:names:tc:opendocument:xmlns:" + name + ":1.0}" for name in ("table", "text"))
_ANNOTATION = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}annotation"
_CONTENT = "content.xml"
MAX_DEPTH = 64
"""Elements inside each other; a sheet has fewer than 20."""


@contextmanager
def open_sheet(file: str, sheet: str | None, findings: Findings) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The rows of a sheet: each one's number, and its cells as they are shown."""
    check_container(file)
    try:
        with zipfile.ZipFile(file) as archive:
            with archive.open(_CONTENT) as content:
                names = [_name(table) for _, table in _tables(content)]
            chosen = choose_sheet(file, names, sheet)
            with archive.open(_CONTENT) as content:
                yield _Rows(file).of(content, chosen)
    except LIBRARY_ERRORS as error:
        raise unreadable(file, error) from error


def _events(content: IO[bytes]) -> Iterator[tuple[str, Element]]:
    """Elements as they start and end."""
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    depth = 0
    for block in blocks(content):
        parser.feed(block)
        events: Iterator[tuple[str, Element]] = parser.read_events()  # type: ignore[assignment]
        for event, element in events:
            depth += 1 if event == "start" else -1
            if depth > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} elements are inside each other")
            yield event, element


def _tables(content: IO[bytes]) -> Iterator[tuple[str, Element]]:
    depth = 0
    for event, element in _events(content):
        if element.tag == f"{_TABLE}table":
            depth += 1 if event == "start" else -1
            if event == "start" and depth == 1:
                yield event, element
        if event == "end":
            element.clear()


def _name(table: Element) -> str:
    return table.get(f"{_TABLE}name", "")


class _Rows:
    """The rows of one sheet; cells and rows that are repeated are stored once in the file, so they are counted."""

    def __init__(self, file: str) -> None:
        self._file, self._size = file, Path(file).stat().st_size
        self._characters = 0

    def of(self, content: IO[bytes], name: str) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that holds something, and one for a gap."""
        number, inside = 0, False
        for event, element in _events(content):
            if element.tag == f"{_TABLE}table":
                inside = event == "start" and (_name(element) == name or inside)
            elif event == "end" and inside and element.tag == f"{_TABLE}table-row":
                cells = self._cells(element)
                count = _repeated(element, "rows")
                if number + count > MAX_ROWS and any(cells):
                    raise ValueError(f"it has more than {MAX_ROWS:,} rows")
                self._characters += count * (len(cells) + sum(map(len, cells)))
                check_growth(self._file, self._size, self._characters, FREE_BYTES)
                for again in range(count if any(cells) else 1):
                    yield number + again + 1, list(cells)
                number += count
                element.clear()
            elif event == "end" and not inside:
                element.clear()

    def _cells(self, row: Element) -> list[str]:
        cells: list[str] = []
        for cell in row:
            if cell.tag in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                text, count = _shown(cell), _repeated(cell, "columns")
                if len(cells) + count > MAX_COLUMNS:
                    if text:
                        raise ValueError(f"it has more than {MAX_COLUMNS:,} columns")
                    count = 0  # the empty rest of a row
                cells += [text] * count
        while cells and not cells[-1]:
            cells.pop()
        return cells


def _repeated(element: Element, what: str) -> int:
    count = int(element.get(f"{_TABLE}number-{what}-repeated", "1"))
    if count < 1:
        raise ValueError(f"a row or cell is repeated {count} times")
    return count


def _shown(cell: Element) -> str:
    """The text of a cell, a line for each paragraph; without comments on it."""
    return "\n".join(_text(paragraph) for paragraph in cell if paragraph.tag == f"{_TEXT}p")


def _spaces(element: Element) -> int:
    count = int(element.get(f"{_TEXT}c", "1"))
    if count > MAX_SPACES:
        raise ValueError(f"{count:,} spaces in a row")
    return count


def _text(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        if child.tag == f"{_TEXT}s":
            parts.append(" " * _spaces(child))
        elif child.tag == f"{_TEXT}tab":
            parts.append("\t")
        elif child.tag == f"{_TEXT}line-break":
            parts.append("\n")
        elif child.tag != _ANNOTATION:
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)
