"""Progress of anything slow, told through one small protocol, so that only the command line knows about bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Bar(Protocol):
    """One thing under way."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Move on by `amount`; `note` is a few words shown beside the bar (a loss, a rate)."""


class Progress(Protocol):
    """Shows things under way; `silent` shows nothing."""

    def bar(self, name: str, total: float | None) -> Any:
        """A context manager giving a `Bar`; `total` is None where the end is unknown."""

    def say(self, text: str) -> None:
        """Tell a person something that happened on the way."""


class _SilentBar:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


class _Silent:
    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        yield _SilentBar()

    def say(self, text: str) -> None:
        pass


silent: Progress = _Silent()
