"""Progress bars in a notebook, drawn by its own display: nothing to install, and the last state is saved with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from warmstart.errors import redact
from warmstart.runtime.progress import Bar, Progress, silent

PAUSE = 0.1
"""Seconds between two drawings of a bar."""
SHORTEST = 0.5
"""Seconds before a bar is drawn at all: what is done by then needs none."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def default_progress() -> Progress:
    """Bars in a notebook; nothing elsewhere."""
    return NotebookBars() if in_notebook() else silent


class NotebookBars:
    """Progress as bars below the cell."""

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        bar = _NotebookBar(redact(name), total)
        try:
            yield bar
        finally:
            bar.finish()

    def log(self, text: str) -> None:
        print(redact(text), flush=True)


class _NotebookBar:
    def __init__(self, name: str, total: float | None) -> None:
        self.name = name
        self.total = total
        self.done = 0.0
        self.note = ""
        self.start = time.monotonic()
        self.drawn = self.start - PAUSE + SHORTEST
        self.handle: Any = None

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        if time.monotonic() - self.drawn >= PAUSE:
            self._draw()

    def finish(self) -> None:
        """Draw the last state; what was never drawn is over too soon to be."""
        if self.handle is not None:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display

        self.drawn = time.monotonic()
        html = HTML(self.html())
        if self.handle is None:
            self.handle = display(html, display_id=True)
        else:
            self.handle.update(html)

    def html(self) -> str:
        """The bar as it is now."""
        seconds = time.monotonic() - self.start
        bounds = f'value="{self.done:g}" max="{self.total:g}"' if self.total else ""
        of = f" / {self.total:,.0f}" if self.total else ""
        left = f", {_clock(seconds * (self.total / self.done - 1))} left" if self.total and self._halfway else ""
        note = f" · {self.note}" if self.note else ""
        text = f"{self.done:,.0f}{of} · {_clock(seconds)}{left}{note}"
        return (
            f'<div>{escape(self.name)} <progress {bounds} aria-label="{escape(self.name)}" style="width: 16em; '
            f'vertical-align: middle"></progress> {escape(text)}</div>'
        )

    @property
    def _halfway(self) -> bool:
        return 0 < self.done < (self.total or 0)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
