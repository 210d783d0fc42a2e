"""The zip file that a spreadsheet is: checked before it is parsed, and the sheet to read chosen in it."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import ParseError

from warmstart.data.compression import check_growth
from warmstart.data.formats.sheets.xml_parts import check_parts
from warmstart.errors import DataError, Location

MAX_PARTS = 10_000
"""Files in a spreadsheet; even one with thousands of pictures has fewer."""
FREE_BYTES = 1 << 24
"""Up to this size a spreadsheet may grow by any factor; it is small, as elements take much more memory than text."""
MAX_ROWS, MAX_COLUMNS = 1 << 20, 1 << 14
"""The size of a sheet in Excel and LibreOffice."""
LIBRARY_ERRORS = (
    *(KeyError, ValueError, TypeError, AttributeError, IndexError, AssertionError, OSError, EOFError, ArithmeticError),
    *(RuntimeError, MemoryError, ParseError, zipfile.BadZipFile, zlib.error),
)
"""What zipfile, the XML parser and openpyxl raise at a file that is not as it should be."""


_OLE = b"\xd0\xcf\x11\xe0"
"""How the files of older programs begin, and the encrypted ones of newer."""
_MANIFEST = "META-INF/manifest.xml"


def check_container(file: str) -> None:
    """Refuse a file that is no zip, or whose parts are those of a bomb or define entities."""
    path = Path(file)
    with path.open("rb") as start:
        if start.read(len(_OLE)) == _OLE:
            raise unreadable(file, "it is encrypted, or an .xls file")
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            if len(parts) > MAX_PARTS:
                raise ValueError(f"it has {len(parts):,} parts")
            size = path.stat().st_size
            check_growth(file, size, sum(part.file_size for part in parts), FREE_BYTES)
            if any(part.flag_bits & 1 for part in parts) or _has_encrypted_parts(archive):
                raise ValueError("it is encrypted")
            check_parts(archive, size)
    except LIBRARY_ERRORS as error:
        raise unreadable(file, error) from error


def _has_encrypted_parts(archive: zipfile.ZipFile) -> bool:
    """Whether an .ods file says so of one of its parts."""
    if _MANIFEST not in archive.namelist():
        return False
    with archive.open(_MANIFEST) as manifest:
        return b"encryption-data" in manifest.read(1 << 20)


def unreadable(file: str, reason: object) -> DataError:
    """The error of a file that cannot be read as a spreadsheet."""
    return DataError(
        f"not readable as a spreadsheet ({str(reason)[:200]}). Save it again as .xlsx or .ods, or as CSV.",
        "sheet",
        location=Location(file),
    )


def choose_sheet(file: str, names: Sequence[str], wanted: str | None) -> str:
    """The sheet to read: the one that is wanted, or the only one."""
    listed = ", ".join(map(repr, names[:20])) or "none"
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None:
        problem = f"has {len(names)} sheets: {listed}. Name one: --sheet NAME (data.sheet)."
    elif wanted in names:
        return wanted
    else:
        problem = f"no sheet {wanted!r}. The file has {listed}. Name one: --sheet NAME (data.sheet)."
    raise DataError(problem, "sheet", location=Location(file))
