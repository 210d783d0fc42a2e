"""What a person sees: progress bars on standard error, tables on standard output."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from warmstart.runtime.progress import Bar, silent
from warmstart.text.windows import Cut, Window

SHOWN = 3
"""Findings of one kind that are shown."""
console = Console()
errors = Console(stderr=True)


class Bars:
    """Progress as rich bars on standard error."""

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        columns = (
            TextColumn("{task.description:<14}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with RichProgress(*columns, console=errors) as shown:
            yield _RichBar(shown, shown.add_task(name, total=total, note=""))

    def say(self, text: str) -> None:
        errors.print(text, markup=False, highlight=False, soft_wrap=True)


class Lines:
    """Progress as lines on standard error, without bars."""

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        with silent.bar(name, total) as bar:
            yield bar

    def say(self, text: str) -> None:
        errors.print(text, markup=False, highlight=False, soft_wrap=True)


class _RichBar:
    def __init__(self, shown: RichProgress, task: Any) -> None:
        self.shown = shown
        self.task = task

    def advance(self, amount: float = 1, note: str = "") -> None:
        if note:
            self.shown.update(self.task, advance=amount, note=note)
        else:
            self.shown.advance(self.task, amount)


def table(title: str, rows: Mapping[str, Any]) -> None:
    """Two columns: a name and its value."""
    console.print(title, style="italic", markup=False, highlight=False)
    shown = Table(show_header=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in rows.items():
        shown.add_row(name, number(value))
    console.print(shown)


def grid(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table with a column for each name, the first one's values in words and the others in numbers."""
    console.print(title, style="italic", markup=False, highlight=False)
    first, *others = rows[0]
    shown = Table(first, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in others:
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(*(number(row[name]) for name in (first, *others)))
    # A number cut off at the edge of a narrow screen would be another number.
    wide = console.measure(shown, options=console.options.update(max_width=1000)).maximum
    Console(width=max(console.width, wide)).print(shown)


def number(value: Any) -> str:
    """A value as a person reads it: four decimals, thousands apart, a dash for what is undefined."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def findings(found: Iterable[Mapping[str, Any]]) -> None:
    """What was found in the data: the first few of each kind, and how many more there are."""
    style = {"error": "red", "warning": "yellow", "note": "dim"}
    seen: Counter[str] = Counter()
    more: Counter[str] = Counter()
    for one in found:
        seen[one["kind"]] += 1
        if seen[one["kind"]] > SHOWN:
            more[one["kind"]] += one["count"]
            continue
        line = f":{one.get('unit', '')}{one['line']}" if one["line"] else ""
        at = f"{one['file']}{line}: " if one.get("file") else ""
        errors.print(
            f"[{style[one['severity']]}]{one['severity']}[/] {escape(at)}{escape(one['message'])}",
            highlight=False,
            soft_wrap=True,
        )
    for kind, count in more.items():
        errors.print(
            f"{count:,} more findings of the kind {kind}; `--json` or data.json lists them",
            highlight=False,
            soft_wrap=True,
        )


def warn(message: str) -> None:
    """A warning on standard error."""
    errors.print(f"[yellow]warning[/] {escape(message)}", highlight=False, soft_wrap=True)


def window(about: Mapping[str, Any]) -> str:
    """A run's window and what it cut of the training rows, in one line."""
    rule = Window(**{name: value for name, value in about.items() if name != "train"}).rule()
    found = Cut(**about["train"])
    return f"{rule}: {found.rows_cut:,} of {found.rows:,} rows cut, {found.share:.1%} of the tokens"


def cut(found: Cut, window: Window, as_json: bool) -> None:
    """Say on standard error what a window cut, if it cut something."""
    if found.rows_cut and as_json:
        errors.file.write(json.dumps({"cut": asdict(found)}) + "\n")
    elif found.rows_cut:
        errors.print(found.told(window), markup=False, highlight=False, soft_wrap=True)


def trial(found: Mapping[str, Any] | None, as_json: bool) -> None:
    """Say on standard error which engine was chosen, and how fast the others were."""
    if found is None:
        return
    if as_json:
        errors.file.write(json.dumps({"trial": found}) + "\n")
        return
    for name, speed in found.get("texts_per_second", {}).items():
        errors.print(f"{name:<16} {speed:>10,.1f} texts per second", markup=False, highlight=False)
    why = f": {found['why']}" if "why" in found else ""
    errors.print(f"engine {found['engine']} {found['precision']}{why}", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """JSON on standard output."""
    console.file.write(json.dumps(value, ensure_ascii=False) + "\n")
