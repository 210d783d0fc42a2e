"""Numbers and dates of a cell as a spreadsheet shows them, by the formats that are common."""

from __future__ import annotations

import datetime as dt
import re

from warmstart.data.findings import Findings
from warmstart.errors import Location

_NUMBER = re.compile(r"(?P<thousands>#,##)?0(?:\.(?P<decimals>0+))?(?P<percent>%)?")
_DATE = re.compile(r"(?:yyyy|yy|mmmm|mmm|mm|m|dddd|ddd|dd|d|hh|h|ss|s|AM/PM|[-/.,: T])+")
_PART = re.compile(r"yyyy|yy|mmmm|mmm|mm|m|dddd|ddd|dd|d|hh|h|ss|s|AM/PM|.")
_LOCALE_PREFIX = re.compile(r"\[\$[^\]]*\]")
_LOCALE_DATES = ("mm-dd-yy", "m/d/yy h:mm")
"""Formats that each computer shows in its own way; dates with these are written as ISO 8601."""


class CellTexts:
    """The text of each cell; notes once where a format is not known here, and the value is written plainly."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._unknown: dict[str, tuple[int, int]] = {}

    def of(self, value: object, format: str, row: int) -> str:
        """A cell's value as it is shown."""
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, dt.timedelta):
            return str(value)
        shown = _shown(value, _LOCALE_PREFIX.sub("", format.split(";")[0]).replace("\\", "").replace('"', ""))
        if shown is None:
            count, first = self._unknown.get(format, (0, row))
            self._unknown[format] = (count + 1, first)
            return _plain(value)
        return shown

    def report(self, findings: Findings) -> None:
        """Note the formats that were not applied."""
        for format, (count, row) in self._unknown.items():
            message = f"cells with the number format {format!r} are read without it, as 1234.5 or 2026-01-31"
            findings.add("cell-format", "note", message, Location(self._file, row, "row "), count)


def _shown(value: object, format: str) -> str | None:
    if format in ("General", "@", ""):
        return _plain(value)
    if isinstance(value, int | float):
        match = _NUMBER.fullmatch(format)
        return _number(value, match) if match else None
    if isinstance(value, dt.date | dt.time):
        if format.lower() in _LOCALE_DATES:
            return _plain(value)
        return _date(value, format) if _DATE.fullmatch(format) else None
    return None


def _plain(value: object) -> str:
    """A number with up to 15 digits, which is all that a spreadsheet stores; a date as ISO 8601, midnight left out."""
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time()
        return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
    return str(value)


def _number(value: float, match: re.Match[str]) -> str:
    percent = match["percent"] or ""
    decimals = len(match["decimals"] or "")
    comma = "," if match["thousands"] else ""
    return f"{value * 100 if percent else value:{comma}.{decimals}f}{percent}"


def _date(value: dt.date | dt.time, format: str) -> str:
    """A date by the parts of its format; `m` beside hours or seconds is for minutes."""
    parts = _PART.findall(format)
    named = [part for part in parts if part.isalpha()]
    texts, seen = [], -1
    for part in parts:
        seen += part.isalpha()
        around = named[max(0, seen - 1) : seen] + named[seen + 1 : seen + 2]
        minutes = part in ("m", "mm") and any(other[0] in "hs" for other in around)
        texts.append(_date_part(value, part, "AM/PM" in parts, minutes))
    return "".join(texts)


def _date_part(value: dt.date | dt.time, part: str, twelve: bool, minutes: bool) -> str:
    codes = {"yyyy": "%Y", "yy": "%y", "mmmm": "%B", "mmm": "%b", "mm": "%m", "dddd": "%A", "ddd": "%a", "dd": "%d"}
    codes |= {"hh": "%I" if twelve else "%H", "ss": "%S", "AM/PM": "%p"}
    if minutes:
        codes["mm"] = "%M"
    short = {"m": "mm", "d": "dd", "h": "hh", "s": "ss"}
    if part in short:
        return value.strftime(codes[short[part]]).lstrip("0") or "0"
    return value.strftime(codes[part]) if part in codes else part
