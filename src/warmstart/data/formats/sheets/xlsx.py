"""Rows of an .xlsx sheet, streamed by openpyxl; of a formula, the result that was saved with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warmstart.data.compression import check_growth
from warmstart.data.findings import Findings
from warmstart.data.formats.sheets.container import (
    FREE_BYTES,
    LIBRARY_ERRORS,
    MAX_ROWS,
    check_container,
    choose_sheet,
    unreadable,
)
from warmstart.data.formats.sheets.number_formats import CellTexts
from warmstart.errors import MissingExtraError


@contextmanager
def open_sheet(file: str, sheet: str | None, findings: Findings) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The rows of a sheet: each one's number, and its cells as they are shown."""
    try:
        import openpyxl
    except ImportError:
        problem = f"{file}: reading an .xlsx file needs openpyxl: pip install 'warmstart[sheets]'"
        raise MissingExtraError(problem) from None
    check_container(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which are not read
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    except LIBRARY_ERRORS as error:
        raise unreadable(file, error) from error
    try:
        names = [worksheet.title for worksheet in book.worksheets]
        worksheet = book[choose_sheet(file, names, sheet)]
        worksheet.reset_dimensions()  # what the file says of its size may be wrong, and rows are padded to it
        texts = CellTexts(file)
        yield _rows(file, worksheet, texts)
        texts.report(findings)
    finally:
        book.close()


def _rows(file: str, worksheet: object, texts: CellTexts) -> Iterator[tuple[int, list[str]]]:
    rows = worksheet.iter_rows()  # type: ignore[attr-defined]
    number, width, size = 0, 0, Path(file).stat().st_size
    while True:
        try:
            cells = next(rows, None)
            if cells is None:
                return
            number, width = number + 1, width + len(cells)
            if number > MAX_ROWS:
                raise ValueError(f"it has more than {MAX_ROWS:,} rows")
            check_growth(file, size, width, FREE_BYTES)  # a row is padded up to its last cell
            values = [texts.of(cell.value, getattr(cell, "number_format", "General"), number) for cell in cells]
        except LIBRARY_ERRORS as error:
            raise unreadable(file, error) from error
        yield number, values
