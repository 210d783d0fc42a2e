"""Small tables for a notebook, where an object shows itself as HTML: no script, everything escaped, few rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

MOST_ROWS = 40
MOST_CHARACTERS = 200
"""Of a cell or a line."""
_NUMBER = re.compile(r"[+-]?\d[\d.,]*%?")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> str:
    """A table with a title; numbers are right-aligned, and of many rows the first are shown.

    Args:
        columns: Empty for a table without a head.
    """
    head = "".join(f"<th{_align(index, rows)}>{_text(name)}</th>" for index, name in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(f"<td{_align(index, rows)}>{_text(cell)}</td>" for index, cell in enumerate(row)) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    left = len(rows) - MOST_ROWS
    notes = [*([f"{left:,} more rows"] if left > 0 else []), *([note] if note else [])]
    return (
        f"<div><p><b>{_text(title)}</b></p><table>"
        + (f"<thead><tr>{head}</tr></thead>" if columns else "")
        + f"<tbody>{body}</tbody></table>{''.join(map(line, notes))}</div>"
    )


def line(text: str) -> str:
    """A line of text."""
    return f"<p>{_text(text)}</p>"


def number(value: float | None, signed: bool = False) -> str:
    """A score with four decimals; a dash where it is undefined."""
    return "–" if value is None or value != value else f"{value:+.4f}" if signed else f"{value:.4f}"


def _text(value: object) -> str:
    """A value as text that is only text."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else number_or_text(value)
    return escape(text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…")


def number_or_text(value: object) -> str:
    """A fraction with four decimals, and anything else as it is."""
    return number(value) if isinstance(value, float) else "–" if value is None else str(value)


def _align(index: int, rows: Sequence[Sequence[object]]) -> str:
    """A notebook aligns all cells to the right, which texts are not read by."""
    last = rows[-1][index] if rows else ""
    is_number = isinstance(last, int | float) or _NUMBER.fullmatch(str(last))
    return "" if is_number else ' style="text-align: left"'
