"""Slices: groups of rows on which the model is significantly worse than on the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from warmstart.data.schema import Schema
from warmstart.diagnosis.answer_labels import labels_of
from warmstart.diagnosis.evaluated_rows import EvaluatedRows
from warmstart.evaluation.comparison import SIGNIFICANCE
from warmstart.evaluation.records.diagnosis import Slice
from warmstart.evaluation.statistics import holm, over_rows
from warmstart.tasks.shared.error_tables import quantiles

MIN_ROWS = 10
"""Rows that a slice and the rest must have to be compared."""
BINS = 5
"""Slices by length."""

Groups = Iterable[tuple[str, str, Sequence[int]]]
"""By what, the name, and the rows of each slice."""


def compare_slices(scores: NDArray[np.float64], groups: Groups) -> tuple[list[Slice], int]:
    """Every slice of enough rows, worst first, and how many were too small to be compared."""
    slices, small = [], 0
    for by, name, chosen in groups:
        if not MIN_ROWS <= len(chosen) <= len(scores) - MIN_ROWS:
            small += 1
            continue
        inside = np.zeros(len(scores), dtype=bool)
        inside[list(chosen)] = True
        own, rest = scores[inside], scores[~inside]
        low, high = _interval(own)
        slices.append(Slice(by, name, len(own), float(own.mean()), low, high, float(rest.mean()), _p_below(own, rest)))
    corrected = holm([part.p for part in slices])
    slices = [replace(part, p=p, significant=p <= SIGNIFICANCE) for part, p in zip(slices, corrected, strict=True)]
    return sorted(slices, key=lambda part: (not part.significant, part.value - part.rest)), small


def groups_of(
    rows: EvaluatedRows, schema: Schema, by: Mapping[str, Sequence[str | None]]
) -> Iterator[tuple[str, str, Sequence[int]]]:
    """The slices there are: by length, by true label, and by further columns."""
    texts = [rows.columns[name] for name in schema.texts if name in rows.columns]
    if texts:
        lengths = [sum(map(len, row)) for row in zip(*texts, strict=True)]
        for low, high, chosen in quantiles(lengths, BINS):
            yield "length", f"{low:g} to {high:g} characters", chosen
    labels: dict[str, list[int]] = {}
    for index, answer in enumerate(rows.truth or ()):
        for name in dict.fromkeys(labels_of(answer)):
            labels.setdefault(name, []).append(index)
    yield from (("label", name, chosen) for name, chosen in labels.items())
    for column, values in by.items():
        own: dict[str, list[int]] = {}
        for index, value in enumerate(values):
            own.setdefault("(empty)" if value is None else value, []).append(index)
        yield from ((column, name, chosen) for name, chosen in own.items())


def _interval(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Wilson's interval of a share, else by bootstrap."""
    if _binary(scores):
        interval = stats.binomtest(int(scores.sum()), len(scores)).proportion_ci(method="wilson")
        return float(interval.low), float(interval.high)
    estimate = over_rows(scores)
    return estimate.low, estimate.high


def _p_below(own: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """The p value by Fisher's exact test for shares, else by Welch's t test."""
    if _binary(own) and _binary(rest):
        counts = [[int(side.sum()), int(len(side) - side.sum())] for side in (own, rest)]
        return float(stats.fisher_exact(counts, alternative="less").pvalue)
    if np.ptp(own) == 0 and np.ptp(rest) == 0:
        return float(own[0] >= rest[0])
    p = float(stats.ttest_ind(own, rest, equal_var=False, alternative="less").pvalue)
    return 1.0 if math.isnan(p) else p


def _binary(scores: NDArray[np.float64]) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())
