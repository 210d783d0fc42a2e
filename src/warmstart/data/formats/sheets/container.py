"""The zip file that a spreadsheet is: checked before it is parsed, and the sheet to read chosen in it."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from warmstart.data.compression import check_growth
from warmstart.errors import DataError, Location

MAX_PARTS = 10_000
"""Files in a spreadsheet; even one with thousands of pictures has fewer."""


def check_container(file: str) -> None:
    """Refuse a file that is no zip, or whose parts are those of a bomb."""
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise unreadable(file, error) from error
    if len(parts) > MAX_PARTS or any(part.flag_bits & 1 for part in parts):
        raise unreadable(file, "it is encrypted, or has too many parts")
    check_growth(file, Path(file).stat().st_size, sum(part.file_size for part in parts))


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
