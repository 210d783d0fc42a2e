"""The parts of a report: sections of paragraphs, tables, charts, shaded matrices and code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypeVar

LONGEST = 400
"""The most characters of a cell that are shown."""
MOST_ROWS = 50
"""The most rows of a table that are shown."""
MOST_LABELS = 60
"""The most labels of a matrix that are shown."""

_FOLDERS = re.compile(r"(?<![^\s'\"`(])/(?:[^\s/'\"`]+/)+")
T = TypeVar("T")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `tone` is `warning` where it must not be missed."""

    text: str
    tone: str = ""
    kind: str = "prose"


@dataclass(frozen=True)
class TableBlock:
    """Rows under named columns; numbers are right-aligned, texts have their own direction."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
    left_out: int = 0
    """How many rows are not shown, which the page mentions."""
    kind: str = "table"


@dataclass(frozen=True)
class ChartBlock:
    """A chart, and its numbers as a table."""

    title: str
    description: str
    svg: str
    table: TableBlock
    narrow: str = ""
    """The same, drawn for a phone; empty where it is small enough, or is scrolled there."""
    kind: str = "chart"


@dataclass(frozen=True)
class MatrixBlock:
    """A table of numbers, each with a shade from 0 (none) to 10."""

    caption: str
    corner: str
    """What rows and columns are."""
    columns: Sequence[str]
    names: Sequence[str]
    cells: Sequence[Sequence[tuple[float | None, int]]]
    """The numbers of each row, with their shades."""
    note: str = ""
    kind: str = "matrix"


@dataclass(frozen=True)
class CodeBlock:
    """Preformatted text, such as a recipe; folded where it is long."""

    caption: str
    text: str
    folded: bool = False
    kind: str = "code"


@dataclass(frozen=True)
class WordsBlock:
    """The words of a text, each with a shade from -10 (against the answer) to 10 (for it)."""

    caption: str
    words: Sequence[tuple[str, int]]
    """Each with the space before it."""
    note: str = ""
    kind: str = "words"


Block = Paragraph | TableBlock | ChartBlock | MatrixBlock | CodeBlock | WordsBlock


@dataclass(frozen=True)
class Section:
    """A heading and the blocks under it."""

    name: str
    """The anchor."""
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def first(items: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], int]:
    """The first of many, and how many are left out."""
    return items[:most], max(0, len(items) - most)


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most so many of them, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def clean(text: str, most: int = LONGEST) -> str:
    """Text from anywhere made fit for a page: no control characters, no lone surrogates, not too long."""
    shown = text[:most]
    plain = "".join(char if char in "\n\t" or _harmless(char) else "\N{REPLACEMENT CHARACTER}" for char in shown)
    more = len(text) - most
    return plain if more <= 0 else f"{plain}… ({more:,} more characters)"


def brief(name: str, most: int) -> str:
    """A name for the edge of a chart: too long a one loses its middle, since names often differ at their ends."""
    plain = " ".join(clean(name).split())
    half = (most - 1) // 2
    return plain if len(plain) <= most else f"{plain[:half]}…{plain[-half:]}"


def _harmless(char: str) -> bool:
    # Cc are control characters, Cs lone surrogates, Cn unassigned code points and noncharacters.
    return unicodedata.category(char) not in {"Cc", "Cs", "Cn"}


def number(value: object) -> str:
    """A number for people: a comma between thousands, three decimals, small ones in scientific notation."""
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:,.3f}"
    return str(value)


def interval(low: float | None, high: float | None) -> str:
    """The bounds of an interval; a dash where there are none."""
    return "–" if low is None or high is None or low != low or high != high else f"{number(low)} to {number(high)}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{share:.1%}"


def without_folders(text: str) -> str:
    """A message with its absolute paths reduced to file names."""
    return _FOLDERS.sub("", text)


def name_of(path: str) -> str:
    """A file's name without its folders, which are private to this machine; names on the Hub stay whole."""
    return path if path.startswith(("hub:", "(")) else PurePath(path).name
