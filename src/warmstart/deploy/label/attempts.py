"""What killed a worker: counted outside of the workers, and found by halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

DEATHS = 3
"""How often something may kill its worker until it is given up."""


class Attempts(Protocol):
    """Counts what was begun and not finished, which is what killed its worker."""

    def begin(self, what: str) -> int:
        """Count one more start; returns how many were not finished, or -1 where it was finished."""

    def finish(self, what: str) -> None:
        """It was survived."""


class AttemptCounter:
    """The counts in memory; as an actor of Ray's, they outlive the workers."""

    def __init__(self) -> None:
        self.starts: dict[str, int] = {}
        self.finished: set[str] = set()

    def begin(self, what: str) -> int:
        if what in self.finished:
            return -1
        self.starts[what] = self.starts.get(what, 0) + 1
        return self.starts[what] - 1

    def finish(self, what: str) -> None:
        self.finished.add(what)


def deadly_rows(attempts: Attempts, name: str, rows: range, answer: Callable[[range], object]) -> Iterator[int]:
    """The indices of rows that kill the worker by themselves, three times each.

    Each death leaves a trace in `attempts`; the next worker calls this again and goes on from there, with half of
    what its predecessor died of.
    """
    what = f"{name} rows {rows.start}-{rows.stop}"
    deaths = attempts.begin(what)
    if deaths < 0:
        return
    if deaths == 0 or (len(rows) == 1 and deaths < DEATHS):
        answer(rows)
        attempts.finish(what)
    elif len(rows) == 1:
        yield rows.start
    else:
        half = len(rows) // 2
        yield from deadly_rows(attempts, name, rows[:half], answer)
        yield from deadly_rows(attempts, name, rows[half:], answer)
