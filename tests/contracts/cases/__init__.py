"""What the contract suite asks of each task, in a file of the task's name: rows, settings and how others open it."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart import tasks


@dataclass(frozen=True)
class Case:
    """One way to use a task.

    Args:
        rows: A few rows to learn by heart, with the columns of the task's schema.
        asked: What a user hands to `predict`, in any of the forms the task takes.
        opened: What the library that has the head gives for one of `asked`, opened from the model folder without
            warmstart: names of the answer and their values. None where no other library has the head.
        long: Something far longer than the window.
        refused: What is no question: refused with a DataError that names it.
        settings: Recipe fields beside those of the suite.
        skips: Architectures without the head, and why: the refusal says so.
    """

    rows: Sequence[Mapping[str, Any]]
    asked: Sequence[Any]
    opened: Callable[[Path, Any], Mapping[str, Any]] | None
    long: Any
    refused: Sequence[Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    skips: Mapping[str, str] = field(default_factory=dict)


def all_cases() -> dict[str, Case]:
    """Every case of every task, by the task's name and the case's."""
    found = {}
    for name in tasks.names():
        for case, value in importlib.import_module(f"{__name__}.{name}").CASES.items():
            found[f"{name} {case}".strip()] = value
    return found
