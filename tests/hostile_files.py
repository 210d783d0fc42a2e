"""Hostile spreadsheets and archives, cases as in `hostile.py`: refused by name, or read without following anything."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from hostile import Case

BOMB = 80 << 20
"""Bytes that a bomb unpacks to; the proof takes more, and even more would only take its maker longer."""


FILE_CASES: list[Case] = []


def file_case(name: str, file: str, content: bytes | Callable[[Path], bytes], *names: str) -> None:
    """A file that must be refused, saying `names`; without them its rows are read, and nothing in it is followed."""

    def make(folder: Path) -> None:
        for benign in folder.iterdir():
            benign.unlink()
        (folder / file).write_bytes(content(folder) if callable(content) else content)

    FILE_CASES.append(Case(name, "data", make, (file, *names) if names else ()))


# --- archives -----------------------------------------------------------------------------------------------------

ROWS = b"text,label\na good film,good\na bad film,bad\n"


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


@cache
def _zeros() -> bytes:
    """A zip of one file of zeros, made without that file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("rows.csv", "w") as out:
        out.write(b"text,label\n")
        for _ in range(BOMB >> 20):
            out.write(bytes(1 << 20))
    return file.getvalue()


def _gzip_zeros(_folder: Path) -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="w") as out:
        for _ in range(BOMB >> 20):
            out.write(bytes(1 << 20))
    return file.getvalue()


def _zstd_zeros(_folder: Path) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(bytes(BOMB))


def _central_entries(data: bytes) -> Iterator[int]:
    place = data.find(b"PK\1\2")
    while place >= 0:
        yield place
        place = data.find(b"PK\1\2", place + 4)


def _overlapping(_folder: Path) -> bytes:
    """A zip whose hundred members are the same bytes of the file."""
    data = zipped(("rows.csv", bytes(4 << 20)))
    start = next(_central_entries(data))
    end = data.rfind(b"PK\5\6")
    entry = data[start:end]
    entries = b"".join(entry.replace(b"rows.csv", f"rows{number:03}x"[:8].encode()) for number in range(100))
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 100, 100, len(entries), start, 0)
    return data[:start] + entries + tail


def _lying(_folder: Path) -> bytes:
    """A zip that says its file is small."""
    data = bytearray(_zeros())
    start = next(_central_entries(bytes(data)))
    data[start + 24 : start + 28] = struct.pack("<L", 1000)
    return bytes(data)


def _encrypted(data: bytes) -> bytes:
    """The same zip, whose every member says that it is encrypted."""
    changed = bytearray(data)
    for place in _central_entries(data):
        changed[place + 8] |= 1
    return bytes(changed)


def _link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("rows.csv")
    info.external_attr = 0o120777 << 16
    return info


REFUSED = "cannot be unpacked"
BIG = "times its size"
file_case("a zip bomb", "rows.csv.zip", lambda _: _zeros(), BIG)
file_case("a gzip bomb", "rows.csv.gz", _gzip_zeros, BIG)
file_case("a Zstandard bomb", "rows.csv.zst", _zstd_zeros, BIG)
file_case("a zip bomb that lies about its size", "rows.csv.zip", _lying, REFUSED)
file_case("a zip of overlapping members", "rows.csv.zip", _overlapping, "holds 100 files")
file_case("a zip in a zip", "rows.csv.zip", lambda _: zipped(("rows.csv", _zeros())), "compressed bytes")
file_case("a gzip in a gzip", "rows.csv.gz", lambda _: gzip.compress(gzip.compress(ROWS)), "rows.csv.gz")
file_case("a zip of two files", "rows.csv.zip", zipped(("a.csv", ROWS), ("b.csv", ROWS)), "holds 2 files")
file_case("an encrypted zip", "rows.csv.zip", _encrypted(zipped(("rows.csv", ROWS))), "encrypted")
file_case("a zip whose member leads out", "rows.csv.zip", zipped(("../../secret", ROWS)))
file_case("a zip whose member is absolute", "rows.csv.zip", lambda f: zipped((str(f.parent / "secret"), ROWS)))
file_case(
    "a zip whose member is a link",
    "rows.csv.zip",
    lambda f: zipped((_link(), str(f.parent / "secret").encode())),
    "text",
)
file_case("a Zstandard frame of a huge window", "rows.csv.zst", b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(64), REFUSED)
file_case("gzip members without number", "rows.csv.gz", gzip.compress(b"") * 50_000 + gzip.compress(ROWS))

# --- .xlsx --------------------------------------------------------------------------------------------------------

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def _parts(sheet: str, strings: str = "", rels: str = "") -> dict[str, str]:
    package = "http://schemas.openxmlformats.org/package/2006"
    return {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
        f'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="{TYPES}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPES}.worksheet+xml"/>'
        f'<Override PartName="/xl/sharedStrings.xml" ContentType="{TYPES}.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{RELS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELS}"><sheets>'
        '<sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{RELS}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2" Type="{RELS}/sharedStrings" '
        f'Target="sharedStrings.xml"/>{rels}</Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"><si><t>text</t></si><si><t>label</t></si>{strings}</sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}">{sheet}</worksheet>',
    }


HEADER = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'


def _row(text: str, number: int | str = 2) -> str:
    cells = (("A", text), ("B", "good"))
    return (
        f'<row r="{number}">'
        + "".join(f'<c r="{name}{number}" t="inlineStr"><is><t>{cell}</t></is></c>' for name, cell in cells)
        + "</row>"
    )


def _data(*rows: str) -> str:
    return f"<sheetData>{HEADER}{''.join(rows)}</sheetData>"


def _packed(parts: dict[str, str | bytes]) -> bytes:
    return zipped(*((name, part if isinstance(part, bytes) else part.encode()) for name, part in parts.items()))


Text = str | Callable[[], str]


def _made(text: Text) -> str:
    return text if isinstance(text, str) else text()


def _xlsx(name: str, sheet: Text, *names: str, strings: Text = "", rels: str = "") -> None:
    file_case(name, "rows.xlsx", lambda _: _packed({**_parts(_made(sheet), _made(strings), rels)}), *names)


LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)


def _with_entity(part: str, doctype: Callable[[Path], str], entity: str) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        parts = _parts(_data(_row(f"&{entity};" if part.endswith("sheet1.xml") else "a good film")))
        body = parts[part]
        place = body.rfind("</")
        if not part.endswith("sheet1.xml"):
            body = f"{body[:place]}<x>&{entity};</x>{body[place:]}"
        return _packed({**parts, part: f'<?xml version="1.0"?>{doctype(folder)}{body}'})

    return make


DOCTYPE = ("document type",)
for _part in ("xl/workbook.xml", "xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"):
    _short = _part.rpartition("/")[2]
    file_case(f"a billion laughs in {_short}", "rows.xlsx", _with_entity(_part, lambda _: LAUGHS, "j"), _part, *DOCTYPE)
    for _what, _address in (("a file", "file://{}/../secret"), ("an address", "http://127.0.0.1:9/{}")):

        def _external(folder: Path, address: str = _address) -> str:
            return f'<!DOCTYPE l [<!ENTITY x SYSTEM "{address.format(folder)}">]>'

        file_case(
            f"an entity of {_what} in {_short}", "rows.xlsx", _with_entity(_part, _external, "x"), _part, *DOCTYPE
        )
file_case(
    "a document type in UTF-16 in an .xlsx",
    "rows.xlsx",
    lambda _: _packed(
        {
            **_parts(_data(_row("&j;"))),
            "xl/worksheets/sheet1.xml": f'{LAUGHS}<worksheet xmlns="{MAIN}">&j;</worksheet>'.encode("utf-16"),
        }
    ),
    *DOCTYPE,
)
_xlsx("a sheet that is a bomb", lambda: " " * BOMB + _data(_row("a")), BIG)
_xlsx("shared strings that is a bomb", _data(_row("a")), BIG, strings=lambda: "<si/>" * (BOMB // 5))
_xlsx("a tag in every three bytes", lambda: _data('<row r="2">' + "<x/>" * 4_000_000 + "</row>"), "tags")
_xlsx("a dimension of the whole sheet", '<dimension ref="A1:XFD1048576"/>' + _data(_row("a good film")))
_xlsx("a row of number 2^31", _data(_row("a good film"), _row("a bad film", 1 << 31)), "rows")
_xlsx("a row of a number without end", _data(_row("a good film", "9" * 5000)), "spreadsheet")
_xlsx(
    "a cell far to the right in every row",
    lambda: _data(*(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(2, 50_000))),
    "16384 cells",
)
_xlsx("a column that is none", _data('<row r="2"><c r="ZZZZZZ2"><v>1</v></c></row>'), "spreadsheet")
_xlsx(
    "strings that are not there",
    lambda: _data('<row r="2">' + '<c t="s"><v>9999999</v></c>' * 100_000 + "</row>"),
    "range",
)
_xlsx(
    "elements nested deep",
    lambda: _data('<row r="2"><c r="A2" t="inlineStr"><is>' + "<r>" * 100_000 + "</r>" * 100_000 + "</is></c></row>"),
    "no rows",
)
_xlsx(
    "elements nested deep in shared strings",
    _data(_row("a good film")),
    strings="<si>" + "<r>" * 50_000 + "</r>" * 50_000 + "</si>",
)
_xlsx("a tag of 12 MB", lambda: f'<x a="{"y" * (12 << 20)}"/>' + _data(_row("a")), "tag of more than")
_xlsx("a comment of 12 MB", lambda: f"<!--{'y>' * (6 << 20)}-->" + _data(_row("a")), "tag of more than")
_xlsx("a date of the year 10^300", _data('<row r="2"><c r="A2" t="d"><v>1e300</v></c></row>'), "spreadsheet")
_xlsx(
    "a formula that would start a program",
    _data(
        '<row r="2"><c r="A2" t="str"><f>cmd|\'/c touch ran\'!A0</f><v>a good film</v></c><c r="B2" t="str">'
        '<f>WEBSERVICE("http://127.0.0.1:9/")</f><v>good</v></c></row>'
    ),
)
_xlsx(
    "a link to another book",
    _data(_row("a good film")),
    rels=f'<Relationship Id="r3" Type="{RELS}/externalLink" Target="http://127.0.0.1:9/b.xlsx" TargetMode="External"/>',
)
file_case(
    "a sheet that leads out of the file",
    "rows.xlsx",
    lambda _: _packed(
        {
            **_parts(_data(_row("a"))),
            "xl/_rels/workbook.xml.rels": _parts("")["xl/_rels/workbook.xml.rels"].replace(
                "worksheets/sheet1.xml", "../../../../etc/passwd"
            ),
        }
    ),
    "0 sheets",
)
file_case(
    "a macro",
    "rows.xlsx",
    lambda _: _packed({**_parts(_data(_row("a good film"))), "xl/vbaProject.bin": b"\xd0\xcf\x11\xe0Sub Auto_Open()"}),
)
file_case("an encrypted .xlsx", "rows.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4096), "encrypted")
file_case(
    "an .xlsx of encrypted parts", "rows.xlsx", lambda _: _encrypted(_packed({**_parts(_data(_row("a")))})), "encrypted"
)
file_case(
    "an .xlsx of too many parts",
    "rows.xlsx",
    lambda _: zipped(*((f"x{n}", b"") for n in range(20_000))),
    "20,000 parts",
)
file_case(
    "a part that is not XML",
    "rows.xlsx",
    lambda _: _packed({**_parts(_data()), "xl/workbook.xml": b"\x00\xff\x00"}),
    "xl/workbook.xml",
)

# --- .ods ---------------------------------------------------------------------------------------------------------

_NAMES = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
)
_CELL = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
ODS_HEADER = f"<table:table-row>{_CELL.format('text')}{_CELL.format('label')}</table:table-row>"


def _content(body: str) -> str:
    return (
        f"<office:document-content{_NAMES}><office:body><office:spreadsheet><table:table table:name='One'>{ODS_HEADER}"
        f"{body}</table:table></office:spreadsheet></office:body></office:document-content>"
    )


def _ods_row(text: str, row: str = "", cell: str = "") -> str:
    return (
        f"<table:table-row{row}><table:table-cell{cell}><text:p>{text}</text:p></table:table-cell><table:table-cell>"
        "<text:p>good</text:p></table:table-cell></table:table-row>"
    )


def _ods(
    name: str,
    body: Text,
    *names: str,
    before: str | Callable[[Path], str] = "",
    encoding: str = "utf-8",
    **parts: bytes,
) -> None:
    def make(folder: Path) -> bytes:
        prolog = before if isinstance(before, str) else before(folder)
        content = (prolog + _content(_made(body))).encode(encoding)
        return zipped(
            ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"), ("content.xml", content), *parts.items()
        )

    file_case(name, "rows.ods", make, *names)


_ods("a billion laughs in an .ods", _ods_row("&j;"), *DOCTYPE, before=LAUGHS)
_ods("a billion laughs in an .ods in UTF-16", _ods_row("&j;"), *DOCTYPE, before=LAUGHS, encoding="utf-16")
_ods(
    "an entity of a file in an .ods",
    _ods_row("&x;"),
    *DOCTYPE,
    before=lambda f: f'<!DOCTYPE l [<!ENTITY x SYSTEM "file://{f.parent}/secret">]>',
)
_ods(
    "an entity of an address in an .ods",
    _ods_row("&x;"),
    *DOCTYPE,
    before='<!DOCTYPE l SYSTEM "http://127.0.0.1:9/x.dtd">',
)
_ods("rows repeated 10^9 times", _ods_row("a" * 1000, " table:number-rows-repeated='1000000000'"), "spreadsheet")
_ods("cells repeated 10^9 times", _ods_row("a", cell=" table:number-columns-repeated='1000000000'"), "columns")
_ods(
    "rows of the whole sheet",
    lambda: _ods_row("a", " table:number-rows-repeated='1000000'", " table:number-columns-repeated='16000'"),
    BIG,
)
_ods("10^9 spaces", _ods_row("<text:s text:c='1000000000'/>"), "spaces")
_ods(
    "spaces without end in many cells",
    lambda: "".join(_ods_row("a" + "<text:s text:c='9999'/>" * 10) for _ in range(3000)),
    BIG,
)
_ods(
    "elements nested deep in an .ods",
    lambda: _ods_row("<text:span>" * 50_000 + "</text:span>" * 50_000),
    "inside each other",
)
_ods("an .ods that is a bomb", lambda: " " * BOMB, BIG)
_ods("elements without number in a row", lambda: f"<table:table-row>{'<x/>' * 4_000_000}</table:table-row>", "tags")
_ods(
    "an encrypted .ods",
    "",
    "encrypted",
    **{"META-INF/manifest.xml": b"<manifest><file-entry><encryption-data/></file-entry></manifest>"},
)
_ods(
    "a formula and a script in an .ods",
    _ods_row("a good film", cell=""" table:formula='of:=DDE("soffice";"/etc/passwd";"A1")'"""),
    **{"Basic/Standard/Module1.xml": b"<script>Shell(&quot;touch ran&quot;)</script>"},
)
