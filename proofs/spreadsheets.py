"""Rows written as .xlsx and .ods files, for the proofs."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import openpyxl

NAMESPACES = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"' for short in ("office", "table", "text")
)


def write_spreadsheet(rows: Iterable[Sequence[str]], path: Path) -> None:
    """Write one sheet of texts, by the suffix of the file."""
    if path.suffix == ".ods":
        write_ods(path, f'<table:table table:name="One">{"".join(map(_ods_row, rows))}</table:table>')
        return
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("One")
    for row in rows:
        cells = [openpyxl.cell.WriteOnlyCell(sheet, value=cell) for cell in row]
        for cell in cells:
            cell.data_type = "s"  # also where a text begins like a formula
        sheet.append(cells)
    book.save(path)


def write_ods(path: Path, sheets: str, before: str = "") -> None:
    """Write an .ods file with this XML as its sheets."""
    content = (
        f'<?xml version="1.0" encoding="utf-8"?>{before}<office:document-content {NAMESPACES}><office:body>'
        f"<office:spreadsheet>{sheets}</office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", content)


def _ods_row(cells: Sequence[str]) -> str:
    return f"<table:table-row>{''.join(map(_ods_cell, cells))}</table:table-row>"


def _ods_cell(text: str) -> str:
    """A cell, each line of its text a paragraph; spaces in a row are stored as their number."""
    lines = (re.sub(" +", lambda run: f'<text:s text:c="{len(run[0])}"/>', escape(line)) for line in text.split("\n"))
    return f"<table:table-cell>{''.join(f'<text:p>{line}</text:p>' for line in lines)}</table:table-cell>"
