"""One tree of exceptions, so that a caller can catch as much or as little as wanted.

    WarmstartError               anything warmstart raises on purpose
    ├── RecipeError              a recipe or an option says something impossible
    ├── DataError                a data file holds something unexpected
    ├── ModelError               a model folder or name cannot be used
    ├── RunError                 a run folder is missing, unfinished or already taken
    │   └── Busy                 another process makes what is wanted at present
    ├── MissingExtra             an optional package is not installed
    ├── TrainingError            a training went wrong: its loss is no number
    ├── DiskError                the disk is full, or a folder cannot be written to
    └── Stopped                  a signal stopped a training, which was saved first

Every message says what happened, what was found, what was expected, and what to type next.
The command line prints the message alone and leaves with the class's `exit_code`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WarmstartError(Exception):
    """Anything warmstart raises on purpose."""

    exit_code = 1


class RecipeError(WarmstartError):
    """A recipe or an option says something impossible."""

    exit_code = 3


class DataError(WarmstartError):
    """A data file holds something unexpected; the message starts with `file:line`.

    Attributes:
        kind: Which fault it is, by its name in the table of `data/faults.py`.
    """

    exit_code = 4

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ModelError(WarmstartError):
    """A model folder or name cannot be used."""

    exit_code = 5


class RunError(WarmstartError):
    """A run folder is missing, unfinished or already taken."""

    exit_code = 6


class Busy(RunError):
    """Another process makes what is wanted at present; it can be had when that is done."""


class MissingExtra(WarmstartError):
    """An optional package is not installed; the message holds the `pip install` that brings it."""

    exit_code = 7


class TrainingError(WarmstartError):
    """A training went wrong: its loss is no number."""

    exit_code = 8


class DiskError(WarmstartError):
    """The disk is full, or a folder cannot be written to."""

    exit_code = 9


class Stopped(WarmstartError):
    """A signal stopped a training, which was saved first; the same command goes on from there."""

    exit_code = 75


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known name is meant by a wrong one, or list them all: the tail of an error message."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + ", ".join(names) if names else "none is known"
