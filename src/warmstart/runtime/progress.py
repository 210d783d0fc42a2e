"""Progress of anything slow, reported through one small protocol, so that only the command line knows about bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Bar(Protocol):
    """One operation under way."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Advance by `amount`; `note` is a few words shown beside the bar (a loss, a learning rate)."""


class Progress(Protocol):
    """Shows operations under way; `silent` shows nothing."""

    def bar(self, name: str, total: float | None) -> AbstractContextManager[Bar]:
        """A context manager that yields a `Bar`; `total` is None where the end is unknown."""

    def log(self, text: str) -> None:
        """Show a line about what happened on the way."""


class _SilentBar:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


class _Silent:
    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Bar]:
        yield _SilentBar()

    def log(self, text: str) -> None:
        pass


silent: Progress = _Silent()
