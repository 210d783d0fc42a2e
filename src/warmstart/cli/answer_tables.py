"""Predictions on the screen: a table, or lines of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from warmstart.cli import screen


def answers(texts: Sequence[Any], predictions: Sequence[Mapping[str, Any]], json: bool) -> None:
    """Print the prediction for each text."""
    if json:
        for answer in predictions:
            screen.print_json(dict(answer))
        return
    names = [name for name in predictions[0] if name != "probabilities"]
    shown = Table("text", *names)
    for text, answer in zip(texts, predictions, strict=True):
        plain = text if isinstance(text, str) else " | ".join(flatten(text))
        shown.add_row(Text(plain), *(Text(_cell(answer[name])) for name in names))
    screen.console.print(shown)


def documents(rows: Iterable[Mapping[str, Any]], out: str | None, json: bool) -> None:
    """Print the documents of each query, or write them to a file."""
    if out is not None:
        from warmstart.inference.answer_files import write_answers

        count = write_answers(rows, Path(out))
        screen.errors.print(f"{count:,} documents in {out}", markup=False, highlight=False)
    elif json:
        for row in rows:
            screen.print_json(dict(row))
    else:
        shown = Table("query", "rank", "document", "", "score")
        for row in rows:
            cells = (row["query"], row["rank"], row["document_id"], row["document"], screen.number(row["score"]))
            shown.add_row(*(Text(str(cell)) for cell in cells))
        screen.console.print(shown)


def flatten(texts: Any) -> list[str]:
    """Texts, and the texts of nested lists, in order."""
    return [texts] if isinstance(texts, str) else [part for text in texts for part in flatten(text)]


def _cell(value: Any) -> str:
    """A cell: of a list its items, of a mapping its values."""
    if isinstance(value, list):
        return ("\n" if value and isinstance(value[0], dict | list) else ", ").join(map(_cell, value))
    if isinstance(value, dict):
        return " ".join(map(screen.number, value.values()))
    return str(screen.number(value))
