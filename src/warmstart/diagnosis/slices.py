"""Slices: groups of rows on which the model is worse than on the rest, told from chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from warmstart.data.schema import Schema
from warmstart.diagnosis.evaluated_rows import Answered
from warmstart.evaluation.comparison import LEVEL
from warmstart.evaluation.statistics import holm, over_rows
from warmstart.tasks.shared.error_tables import quantiles

LEAST = 10
"""Rows that a slice and the rest must have to be looked at."""
BINS = 5
"""Slices by length."""

Groups = Iterable[tuple[str, str, Sequence[int]]]
"""By what, the name, and the rows of each slice."""


@dataclass(frozen=True)
class Slice:
    """A group of rows beside the rest."""

    by: str
    name: str
    rows: int
    value: float
    """The mean score in the slice, with its 95% interval."""
    low: float
    high: float
    rest: float
    """That of all other rows."""
    p: float
    """Chance of being so much below the rest, were it like the rest; corrected for the number of slices (Holm)."""
    shown: bool = False
    """Whether it may be said that the model is worse here."""

    def as_json(self) -> dict[str, Any]:
        """The slice for a file."""
        return asdict(self)


def slices(scores: NDArray[np.float64], groups: Groups) -> tuple[list[Slice], int]:
    """Every slice of enough rows, worst first, and how many were too small to look at."""
    found, small = [], 0
    for by, name, chosen in groups:
        if not LEAST <= len(chosen) <= len(scores) - LEAST:
            small += 1
            continue
        inside = np.zeros(len(scores), dtype=bool)
        inside[list(chosen)] = True
        own, rest = scores[inside], scores[~inside]
        low, high = _interval(own)
        found.append(Slice(by, name, len(own), float(own.mean()), low, high, float(rest.mean()), _p_below(own, rest)))
    corrected = holm([one.p for one in found])
    told = [replace(one, p=p, shown=p <= LEVEL) for one, p in zip(found, corrected, strict=True)]
    return sorted(told, key=lambda one: (not one.shown, one.value - one.rest)), small


def groups_of(found: Answered, schema: Schema, by: Mapping[str, Sequence[str | None]]) -> Iterator[Any]:
    """The slices there are: by length, by label in the data, and by further columns."""
    texts = [found.columns[name] for name in schema.texts if name in found.columns]
    if texts:
        lengths = [sum(map(len, row)) for row in zip(*texts, strict=True)]
        for low, high, chosen in quantiles(lengths, BINS):
            yield "length", f"{low:g} to {high:g} characters", chosen
    labels: dict[str, list[int]] = {}
    for index, answer in enumerate(found.answers or ()):
        for name in _labels(answer):
            labels.setdefault(name, []).append(index)
    yield from (("label", name, chosen) for name, chosen in labels.items())
    for column, values in by.items():
        own: dict[str, list[int]] = {}
        for index, value in enumerate(values):
            own.setdefault("(empty)" if value is None else value, []).append(index)
        yield from ((column, name, chosen) for name, chosen in own.items())


def _labels(answer: Any) -> set[str]:
    """The labels in an answer, if it has any."""
    if isinstance(answer, str):
        return {answer}
    if isinstance(answer, list):
        return {one["label"] if isinstance(one, dict) and "label" in one else one for one in answer if _named(one)}
    return set()


def _named(one: Any) -> bool:
    return isinstance(one, str) or (isinstance(one, dict) and "label" in one)


def _interval(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Wilson's of a share, else by bootstrap."""
    if _binary(scores):
        found = stats.binomtest(int(scores.sum()), len(scores)).proportion_ci(method="wilson")
        return float(found.low), float(found.high)
    estimate = over_rows(scores)
    return estimate.low, estimate.high


def _p_below(own: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """The chance by Fisher's exact test for shares, else by Welch's t test."""
    if _binary(own) and _binary(rest):
        counts = [[int(one.sum()), int(len(one) - one.sum())] for one in (own, rest)]
        return float(stats.fisher_exact(counts, alternative="less").pvalue)
    if np.ptp(own) == 0 and np.ptp(rest) == 0:
        return float(own[0] >= rest[0])
    p = float(stats.ttest_ind(own, rest, equal_var=False, alternative="less").pvalue)
    return 1.0 if math.isnan(p) else p


def _binary(scores: NDArray[np.float64]) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())
