"""Records of one sheet of a spreadsheet, each with the number of its row there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.formats.delimited import column_names
from warmstart.data.formats.sheets import ods, xlsx
from warmstart.data.source import FileColumn, Record, Source, format_of, missing_columns
from warmstart.errors import Location

Rows: TypeAlias = Iterator[tuple[int, list[str]]]
"""The number of each row, and its cells."""
ERRORS = ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#SPILL!", "#CALC!", "#GETTING_DATA")
"""What a formula shows that could not be computed."""


def records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    """Yield each row's number in the sheet and its cells in `columns`."""
    with _opener(file, source)(file, source.sheet, findings) as rows:
        numbered = ((number, _trimmed(cells)) for number, cells in rows)
        filled = _without_blank_ends(numbered)
        first = next(filled, None)
        if first is None:
            return
        number, cells = first
        if isinstance(cells, Fault):
            raise cells.at(Location(file, number, "row "))
        try:
            names = column_names(cells, source)
            if missing := missing_columns(columns, names, source):
                raise missing
        except Fault as fault:
            raise fault.at(Location(file, number, "row ")) from None
        indices = [names.index(column.name) for column in columns]
        if not source.header:
            yield number, _picked(cells, indices)
        for number, cells in filled:
            yield number, cells if isinstance(cells, Fault) else _row(cells, names, indices, source)


def names(file: str, source: Source) -> list[str]:
    """The names of a sheet's columns; none of an empty one."""
    with _opener(file, source)(file, source.sheet, Findings()) as rows:
        for number, cells in rows:
            try:
                return column_names(_trimmed(cells), source)
            except Fault as fault:
                raise fault.at(Location(file, number, "row ")) from None
    return []


def _opener(file: str, source: Source) -> Callable[[str, str | None, Findings], AbstractContextManager[Rows]]:
    return ods.open_sheet if format_of(file, source) == "ods" else xlsx.open_sheet


def _row(cells: list[str], names: list[str], indices: list[int], source: Source) -> list[object] | Fault:
    if len(cells) > len(names) and source.extra_columns != "ignore":
        first = "header" if source.header else "first row"
        return Fault(
            f"found {len(cells)} cells, expected {len(names)} as the {first} has. Empty the extra ones, or pass "
            "--extra-columns ignore.",
            "cells-many",
        )
    return _picked(cells, indices)


def _picked(cells: list[str], indices: list[int]) -> list[object] | Fault:
    picked: list[object] = [cells[index] if index < len(cells) else "" for index in indices]
    for cell in picked:
        if cell in ERRORS:
            problem = f"a formula shows {cell}. Expected its result: correct the formula, or remove the row."
            return Fault(problem, "cell-error")
    return picked


def _trimmed(cells: list[str]) -> list[str]:
    """Cells without the empty ones at their end, which a sheet may or may not store."""
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _without_blank_ends(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str] | Fault]]:
    """Rows that hold something; a blank one that a row follows is a fault, those at the end are not."""
    blank = 0
    for number, cells in rows:
        if not cells:
            blank = blank or number
            continue
        if blank:
            yield (
                blank,
                Fault("a blank row between rows. Expected a row: remove it, or pass --drop empty.", "blank-line"),
            )
            blank = 0
        yield number, list(cells)
