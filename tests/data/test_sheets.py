"""Spreadsheets: one sheet, cells as they are shown, formulas never run, and bombs refused."""

import datetime as dt
import zipfile

import openpyxl
import pytest

from warmstart.errors import DataError

NAMESPACES = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"' for short in ("office", "table", "text")
)


def write_xlsx(path, *sheets):
    """Write (name, rows) pairs; a cell is a value, or a (value, number format) pair."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for number, row in enumerate(rows, 1):
            for column, value in enumerate(row, 1):
                value, form = value if isinstance(value, tuple) else (value, None)
                if value is not None:
                    cell = sheet.cell(number, column, value)
                    cell.number_format = form or cell.number_format
    book.save(path)
    return str(path)


def write_ods(path, body, before=""):
    content = (
        f'<?xml version="1.0"?>{before}<office:document-content {NAMESPACES}><office:body><office:spreadsheet>{body}'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", content)
    return str(path)


def ods_row(*cells, times=1):
    inner = "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
    return f'<table:table-row table:number-rows-repeated="{times}">{inner}</table:table-row>'


def ods_sheet(*rows, name="One"):
    return f'<table:table table:name="{name}">{"".join(rows)}</table:table>'


def pairs(rows):
    return [(row["line"], row["text"], row["label"]) for row in rows]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (3.0, "3"),
        (0.1, "0.1"),
        (123456789012345, "123456789012345"),
        (True, "TRUE"),
        ((2.5, "0.00"), "2.50"),
        ((1234.5, "#,##0.00"), "1,234.50"),
        ((0.25, "0%"), "25%"),
        ((dt.date(2026, 1, 31), "dd.mm.yyyy"), "31.01.2026"),
        ((dt.datetime(2026, 1, 31, 9, 5), "yyyy-mm-dd hh:mm"), "2026-01-31 09:05"),
        ((dt.datetime(2026, 1, 31, 15, 5), "h:mm AM/PM"), "3:05 PM"),
        ((dt.date(2026, 1, 31), "mm-dd-yy"), "2026-01-31"),
        ("007", "007"),
    ],
)
def test_a_cell_is_read_as_it_is_shown(tmp_path, rows_of, value, shown):
    file = write_xlsx(tmp_path / "a.xlsx", ("One", [("text", "label"), (value, "x")]))
    rows, _ = rows_of(file)
    assert pairs(rows) == [(2, shown, "x")]


def test_a_format_that_is_not_known_is_noted(tmp_path, rows_of):
    file = write_xlsx(tmp_path / "a.xlsx", ("One", [("text", "label"), ((0.5, "# ?/?"), "x"), ((0.25, "# ?/?"), "y")]))
    rows, findings = rows_of(file)
    assert [row["text"] for row in rows] == ["0.5", "0.25"]
    assert findings.count("cell-format") == 2


def test_of_a_formula_only_the_saved_result_is_read(tmp_path, rows_of):
    file = write_xlsx(tmp_path / "a.xlsx", ("One", [("text", "label"), ('=CONCAT("a","b")', "x")]))
    with pytest.raises(DataError, match=r"a\.xlsx:row 2: 'text' is empty"):
        rows_of(file)


def test_blank_rows_are_faults_between_rows_and_not_at_the_end(tmp_path, rows_of):
    good = [("text", "label"), ("a", "x"), ("b", "y"), (" ", None)]
    good[3] = (None, None)
    assert len(rows_of(write_xlsx(tmp_path / "a.xlsx", ("One", good)))[0]) == 2
    with pytest.raises(DataError, match="row 3: a blank row between rows"):
        rows_of(write_xlsx(tmp_path / "b.xlsx", ("One", [("text", "label"), ("a", "x"), (None,), ("b", "y")])))


def test_one_of_several_sheets_has_to_be_named(tmp_path, rows_of):
    rows = [("text", "label"), ("a", "x")]
    file = write_xlsx(tmp_path / "a.xlsx", ("One", rows), ("Two", [*rows, ("b", "y")]))
    with pytest.raises(DataError, match=r"has 2 sheets: 'One', 'Two'. Name one: --sheet NAME"):
        rows_of(file)
    with pytest.raises(DataError, match=r"no sheet 'Three'. The file has 'One', 'Two'"):
        rows_of(file, sheet="Three")
    assert len(rows_of(file, sheet="Two")[0]) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("#REF!", "x"), "row 2: a formula shows #REF!"),
        (("a", "x", "more"), "row 2: found 3 cells, expected 2"),
        ((None, "x"), "row 2: 'text' is empty"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, rows_of, row, message):
    with pytest.raises(DataError, match=message):
        rows_of(write_xlsx(tmp_path / "a.xlsx", ("One", [("text", "label"), row])))


def test_an_ods_sheet_is_read_with_what_it_repeats(tmp_path, rows_of):
    spaced = "a<text:s text:c='2'/>b<text:line-break/>c<office:annotation><text:p>no</text:p></office:annotation>"
    body = ods_sheet(ods_row("text", "label"), ods_row(spaced, "x"), ods_row("b", "y", times=2), ods_row(times=1000000))
    rows, _ = rows_of(write_ods(tmp_path / "a.ods", body))
    assert pairs(rows) == [(2, "a  b\nc", "x"), (3, "b", "y"), (4, "b", "y")]


def test_ods_sheets_are_named_too(tmp_path, rows_of):
    body = ods_sheet(ods_row("text", "label"), ods_row("a", "x")) + ods_sheet(
        ods_row("text", "label"), ods_row("b", "y"), name="Two"
    )
    file = write_ods(tmp_path / "a.ods", body)
    assert pairs(rows_of(file, sheet="Two")[0]) == [(2, "b", "y")]
    with pytest.raises(DataError, match="2 sheets: 'One', 'Two'"):
        rows_of(file)


HOSTILE_ODS = {
    "rows": ods_sheet(ods_row("text", "label"), ods_row("a" * 1000, "x", times=10**9)),
    "more rows than a sheet has": ods_sheet(
        ods_row("text", "label"), ods_row("a", "x"), ods_row(times=2**20), ods_row("b", "y")
    ),
    "spaces": ods_sheet(ods_row("text", "label"), ods_row("<text:s text:c='999999999'/>", "x")),
    "columns": ods_sheet(
        ods_row("text", "label"),
        "<table:table-row><table:table-cell table:number-columns-repeated='999999999'><text:p>a</text:p>"
        "</table:table-cell></table:table-row>",
    ),
    "negative": ods_sheet(ods_row("text", "label"), ods_row("a", "x", times=-1)),
    "not XML": "<table:table",
}


@pytest.mark.parametrize("name", HOSTILE_ODS)
def test_a_hostile_ods_file_is_refused(tmp_path, rows_of, name):
    with pytest.raises(DataError, match=r"not readable as a spreadsheet|unpacks to more"):
        rows_of(write_ods(tmp_path / "a.ods", HOSTILE_ODS[name]))


def test_entities_are_refused(tmp_path, rows_of):
    laughs = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    body = ods_sheet(ods_row("text", "label"), ods_row("&b;", "x"))
    with pytest.raises(DataError, match="document type"):
        rows_of(write_ods(tmp_path / "a.ods", body, laughs))


def test_what_is_no_spreadsheet_is_refused(tmp_path, rows_of):
    for content in (b"text,label\na,x\n", b"PK\x03\x04 cut", b""):
        (tmp_path / "a.xlsx").write_bytes(content)
        with pytest.raises(DataError, match="not readable as a spreadsheet"):
            rows_of(str(tmp_path / "a.xlsx"))
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as archive:
        archive.writestr("other.xml", "<a/>")
    with pytest.raises(DataError, match="not readable as a spreadsheet"):
        rows_of(str(tmp_path / "b.xlsx"))
