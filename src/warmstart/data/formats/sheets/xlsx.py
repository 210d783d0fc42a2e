"""Rows of an .xlsx sheet, streamed by openpyxl; of a formula, the result that was saved with it."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree.ElementTree import ParseError

from warmstart.data.findings import Findings
from warmstart.data.formats.sheets.container import check_container, choose_sheet, unreadable
from warmstart.data.formats.sheets.number_formats import CellTexts
from warmstart.errors import MissingExtraError

_LIBRARY_ERRORS = (KeyError, ValueError, TypeError, AttributeError, IndexError, OSError, ParseError, zipfile.BadZipFile)
"""What openpyxl raises at a file that is not as it should be."""


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
    except _LIBRARY_ERRORS as error:
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
    number = 0
    while True:
        try:
            cells = next(rows, None)
            if cells is None:
                return
            number += 1
            values = [texts.of(cell.value, getattr(cell, "number_format", "General"), number) for cell in cells]
        except _LIBRARY_ERRORS as error:
            raise unreadable(file, error) from error
        yield number, values
