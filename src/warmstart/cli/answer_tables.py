"""Answers on the screen: a table for people, lines of JSON for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from warmstart.cli import screen


def answers(texts: Sequence[Any], given: Sequence[Mapping[str, Any]], json: bool) -> None:
    """The answer to each text."""
    if json:
        for answer in given:
            screen.print_json(dict(answer))
        return
    names = [name for name in given[0] if name != "probabilities"]
    shown = Table("text", *names)
    for text, answer in zip(texts, given, strict=True):
        plain = text if isinstance(text, str) else " | ".join(_flat(text))
        shown.add_row(Text(plain), *(Text(_cell(answer[name])) for name in names))
    screen.console.print(shown)


def documents(found: Iterable[Mapping[str, Any]], out: str | None, json: bool) -> None:
    """Documents found for queries; with `out`, in a file."""
    if out is not None:
        from warmstart.inference.answer_files import write_answers

        count = write_answers(found, Path(out))
        screen.errors.print(f"{count:,} documents in {out}", markup=False, highlight=False)
    elif json:
        for row in found:
            screen.print_json(dict(row))
    else:
        shown = Table("query", "rank", "document", "", "score")
        for row in found:
            cells = (row["query"], row["rank"], row["document_id"], row["document"], screen.number(row["score"]))
            shown.add_row(*(Text(str(cell)) for cell in cells))
        screen.console.print(shown)


def _flat(texts: Any) -> list[str]:
    """Texts, and texts in lists among them, one after the other."""
    return [texts] if isinstance(texts, str) else [one for text in texts for one in _flat(text)]


def _cell(value: Any) -> str:
    """One cell; of a list its items, of a mapping its values."""
    if isinstance(value, list):
        return ("\n" if value and isinstance(value[0], dict | list) else ", ").join(map(_cell, value))
    if isinstance(value, dict):
        return " ".join(map(screen.number, value.values()))
    return str(screen.number(value))
