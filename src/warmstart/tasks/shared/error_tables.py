"""Tables of a task's own kinds of error: counts and means over groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from warmstart.tasks.base import ErrorTable

RANKS = ((1, 1), (2, 2), (3, 3), (4, 10), (11, 100))
"""Ranks of the first relevant document that are counted together."""


def table(title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> ErrorTable:
    """A table as a diagnosis holds it."""
    return {"title": title, "note": note, "columns": list(columns), "rows": [list(row) for row in rows]}


def share(part: float, whole: float) -> float | None:
    """A share, None of nothing."""
    return part / whole if whole else None


def quantiles(values: Sequence[float], most: int) -> Iterator[tuple[float, float, list[int]]]:
    """Up to so many groups of about as many values, equals together: lowest and highest value, and their indices."""
    array = np.asarray(values, dtype=float)
    if not len(array):
        return
    edges = np.unique(np.quantile(array, np.linspace(0, 1, most + 1)[1:-1], method="higher"))
    groups = np.searchsorted(edges, array, side="right")
    for group in np.unique(groups):
        indices = np.flatnonzero(groups == group)
        yield float(array[indices].min()), float(array[indices].max()), indices.tolist()


def f1_by_group(
    title: str, note: str, name: str, groups: Iterable[tuple[str, Sequence[int]]], scores: Sequence[float]
) -> ErrorTable:
    """The mean F1 of each group of rows."""
    rows = [[group, len(some), sum(scores[index] for index in some) / len(some)] for group, some in groups]
    return table(title, note, [name, "rows", "F1"], rows)


def ranks_table(ranks: Sequence[int | None]) -> ErrorTable:
    """How many queries have their first relevant document at which rank."""
    rows: list[list[Any]] = []
    for low, high in RANKS:
        count = sum(rank is not None and low <= rank <= high for rank in ranks)
        rows.append([f"{low}" if low == high else f"{low} to {high}", count])
    rows.append(["later, or not found", len(ranks) - sum(row[1] for row in rows)])
    return table("First relevant document", "queries by its rank", ["rank", "queries"], rows)
