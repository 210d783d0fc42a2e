"""Output for people: progress bars on standard error, tables on standard output.

Names and values are `Text`: in rich's own markup, what is in brackets would be a style, and vanish.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from warmstart.data.findings import Finding
from warmstart.errors import redact
from warmstart.evaluation.records.training import WindowRecord
from warmstart.runtime.progress import Bar, silent
from warmstart.text.windows import Truncation, Window

SHOWN = 3
"""Findings of each kind that are printed."""
SHOWN_DIFFERENT = 10
"""The same, where each has another message, such as one for each misspelt label."""
console = Console()
# FORCE_COLOR, which every Jupyter kernel sets, asks for colours; moving bars need a terminal all the same.
errors = Console(stderr=True, force_interactive=None if sys.stderr.isatty() else False)


class Bars:
    """Progress as rich bars on standard error."""

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        columns = (
            TextColumn("{task.description:<14}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with RichProgress(*columns, console=errors) as shown:
            yield _RichBar(shown, shown.add_task(redact(name), total=total, note=""))

    def log(self, text: str) -> None:
        errors.print(redact(text), markup=False, highlight=False, soft_wrap=True)


class Lines:
    """Progress as lines on standard error, without bars."""

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        with silent.bar(name, total) as bar:
            yield bar

    def log(self, text: str) -> None:
        errors.print(redact(text), markup=False, highlight=False, soft_wrap=True)


class _RichBar:
    def __init__(self, shown: RichProgress, task: TaskID) -> None:
        self.shown = shown
        self.task = task

    def advance(self, amount: float = 1, note: str = "") -> None:
        if note:
            self.shown.update(self.task, advance=amount, note=note)
        else:
            self.shown.advance(self.task, amount)


def table(title: str, rows: Mapping[str, object]) -> None:
    """Two columns: a name and its value."""
    console.print(title, style="italic", markup=False, highlight=False)
    shown = Table(show_header=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in rows.items():
        shown.add_row(Text(name), Text(number(value)))
    console.print(shown)


def grid(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """A table with a column for each name, the first of text and the others of numbers."""
    console.print(title, style="italic", markup=False, highlight=False)
    first, *others = rows[0]
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column(Text(first))
    for name in others:
        shown.add_column(Text(name), justify="right")
    for row in rows:
        shown.add_row(*(Text(number(row[name])) for name in (first, *others)))
    # A number truncated at the edge of a narrow screen would be another number.
    wide = console.measure(shown, options=console.options.update(max_width=1000)).maximum
    Console(width=max(console.width, wide)).print(shown)


def number(value: object) -> str:
    """A value for people: four decimals, a comma between thousands, a dash for what is undefined."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def findings(remarks: Iterable[Finding]) -> None:
    """Print findings: the first few of each kind, and how many more there are."""
    style = {"error": "red", "warning": "yellow", "note": "dim"}
    seen: Counter[str] = Counter()
    messages: set[tuple[str, str]] = set()
    more: Counter[str] = Counter()
    for finding in remarks:
        seen[finding.kind] += 1
        known = (finding.kind, finding.message) in messages
        messages.add((finding.kind, finding.message))
        if seen[finding.kind] > (SHOWN if known else SHOWN_DIFFERENT):
            more[finding.kind] += finding.count
            continue
        at = f"{finding.location}: " if finding.location.file else ""
        errors.print(
            f"[{style[finding.severity]}]{finding.severity}[/] {escape(at)}{escape(finding.message)}",
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


def window(record: WindowRecord) -> str:
    """A run's window and what it truncated of the training rows, in one line."""
    cut = record.train
    return f"{record.summary()}: {cut.rows_cut:,} of {cut.rows:,} rows truncated, {cut.share:.1%} of the tokens"


def cut(truncation: Truncation, window: Window, as_json: bool) -> None:
    """Print to standard error what a window truncated, if anything."""
    if truncation.rows_cut and as_json:
        errors.file.write(json.dumps({"cut": asdict(truncation)}) + "\n")
    elif truncation.rows_cut:
        errors.print(truncation.summary(window), markup=False, highlight=False, soft_wrap=True)


def trial(choice: Mapping[str, Any] | None, as_json: bool) -> None:
    """Print to standard error which engine was chosen, and how fast the others were."""
    if choice is None:
        return
    if as_json:
        errors.file.write(json.dumps({"trial": choice}) + "\n")
        return
    for name, speed in choice.get("texts_per_second", {}).items():
        errors.print(f"{name:<16} {speed:>10,.1f} texts per second", markup=False, highlight=False)
    why = f": {choice['why']}" if "why" in choice else ""
    errors.print(f"engine {choice['engine']} {choice['precision']}{why}", markup=False, highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Print JSON to standard output."""
    console.file.write(json.dumps(value, ensure_ascii=False) + "\n")
