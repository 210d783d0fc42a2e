"""Tables of a task's own kinds of error: counts and means over groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from warmstart.tasks.base import Shown

PLACES = ((1, 1), (2, 2), (3, 3), (4, 10), (11, 100))
"""Places of the first right document that are counted together."""


def table(title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Shown:
    """A table as a diagnosis holds it."""
    return {"title": title, "note": note, "columns": list(columns), "rows": [list(row) for row in rows]}


def share(part: float, whole: float) -> float | None:
    """A share, None of nothing."""
    return part / whole if whole else None


def quantiles(values: Sequence[float], most: int) -> Iterator[tuple[float, float, list[int]]]:
    """Up to so many groups of about as many values, equals together: lowest and highest value, and their places."""
    found = np.asarray(values, dtype=float)
    if not len(found):
        return
    edges = np.unique(np.quantile(found, np.linspace(0, 1, most + 1)[1:-1], method="higher"))
    group = np.searchsorted(edges, found, side="right")
    for one in np.unique(group):
        places = np.flatnonzero(group == one)
        yield float(found[places].min()), float(found[places].max()), places.tolist()


def grouped(
    title: str, note: str, name: str, groups: Iterable[tuple[str, Sequence[int]]], scores: Sequence[float]
) -> Shown:
    """The mean F1 of each group of rows."""
    rows = [[group, len(some), sum(scores[index] for index in some) / len(some)] for group, some in groups]
    return table(title, note, [name, "rows", "F1"], rows)


def places_table(places: Sequence[int | None]) -> Shown:
    """How many queries have their first right document at which place."""
    rows: list[list[Any]] = []
    for low, high in PLACES:
        count = sum(place is not None and low <= place <= high for place in places)
        rows.append([f"{low}" if low == high else f"{low} to {high}", count])
    rows.append(["later, or not found", len(places) - sum(row[1] for row in rows)])
    return table("First right document", "queries by its place", ["place", "queries"], rows)
