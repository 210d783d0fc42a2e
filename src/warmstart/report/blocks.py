"""What a report is made of: sections, and in them prose, tables, charts, shaded matrices and text as it stands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar

LONGEST = 400
"""Characters of one cell that are shown."""
MOST_ROWS = 50
"""Rows of one table that are shown."""
MOST_LABELS = 60
"""Labels of a matrix that are shown."""

_FOLDERS = re.compile(r"(?<![^\s'\"`(])/(?:[^\s/'\"`]+/)+")
T = TypeVar("T")


@dataclass(frozen=True)
class Prose:
    """A paragraph; `tone` is `warning` where it must not be missed."""

    text: str
    tone: str = ""
    kind: str = "prose"


@dataclass(frozen=True)
class Table:
    """Rows under named columns; numbers are set right, texts in their own direction."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    left_out: int = 0
    """Rows that are not shown, which the page says."""
    kind: str = "table"


@dataclass(frozen=True)
class Chart:
    """A picture, and the numbers in it as a table."""

    title: str
    description: str
    svg: Any
    table: Table
    kind: str = "chart"


@dataclass(frozen=True)
class Matrix:
    """A table of numbers shaded by how large they are, from 0 (not) to 10."""

    caption: str
    corner: str
    """What the rows and the columns are."""
    columns: Sequence[str]
    names: Sequence[str]
    cells: Sequence[Sequence[tuple[Any, int]]]
    """Of each row, each number with its shade."""
    note: str = ""
    kind: str = "matrix"


@dataclass(frozen=True)
class Code:
    """Text as it stands, such as a recipe; folded where it is long."""

    caption: str
    text: str
    folded: bool = False
    kind: str = "code"


Block = Prose | Table | Chart | Matrix | Code


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    name: str
    """The anchor."""
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def first(items: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], int]:
    """The first of many, and how many are left out."""
    return items[:most], max(0, len(items) - most)


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most so many of them, evenly apart, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def clean(text: str, most: int = LONGEST) -> str:
    """A text from anywhere as a page can hold it: no control characters, no halves of characters, not too long."""
    shown = text[:most]
    plain = "".join(one if one in "\n\t" or _harmless(one) else "\N{REPLACEMENT CHARACTER}" for one in shown)
    more = len(text) - most
    return plain if more <= 0 else f"{plain}… ({more:,} more characters)"


def brief(name: str, most: int) -> str:
    """A name for the edge of a chart: of one too long the middle goes, since names often differ at their ends."""
    plain = " ".join(clean(name).split())
    half = (most - 1) // 2
    return plain if len(plain) <= most else f"{plain[:half]}…{plain[-half:]}"


def _harmless(one: str) -> bool:
    # Cc are control characters, Cs halves of surrogate pairs, Cn unassigned ones and those that are none.
    return unicodedata.category(one) not in {"Cc", "Cs", "Cn"}


def number(value: Any) -> str:
    """A number as a person reads it: thousands apart, three decimals, small ones by their power of ten."""
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:,.3f}"
    return str(value)


def interval(low: Any, high: Any) -> str:
    """Two bounds in words; a dash where there are none."""
    return "–" if low is None or high is None or low != low or high != high else f"{number(low)} to {number(high)}"


def percent(share: float) -> str:
    """A share as a person reads it."""
    return f"{share:.1%}"


def without_folders(text: str) -> str:
    """A message with its absolute paths cut down to names."""
    return _FOLDERS.sub("", text)


def name_of(path: str) -> str:
    """A file's own name: the folders above it are this machine's business. Names on the Hub stay whole."""
    return path if path.startswith(("hub:", "(")) else PurePath(path).name
