"""The gate: a smaller model is kept only if it is surely no worse than a share of the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warmstart.errors import ModelError
from warmstart.evaluation.statistics import over_rows


@dataclass(frozen=True)
class Gate:
    """How a model compares with the original, on the same rows.

    Attributes:
        ratio: The mean score of a row, as a share of the original's.
        margin: How far the mean is above `min_ratio` times the original's; `low` is the lower end of its 95% interval,
            paired by row, and must not be below 0.
    """

    min_ratio: float
    original: float
    smaller: float
    ratio: float
    margin: float
    low: float
    rows: int

    @property
    def passed(self) -> bool:
        """Whether the model may be kept."""
        return self.low >= 0


def check_original(scores: Sequence[float]) -> None:
    """Refuse a model of whose scores no share can be asked for."""
    if min(scores) < 0:
        raise ModelError("the scores of rows are below 0, so that no share of them can be asked for")
    if sum(scores) == 0:
        raise ModelError("the original has no dev row right, so that any model would pass")


def judge(original: Sequence[float], smaller: Sequence[float], min_ratio: float) -> Gate:
    """Compare the scores of the same rows by two models; more is better, and none is below 0."""
    check_original(original)
    before, after = np.asarray(original, dtype=float), np.asarray(smaller, dtype=float)
    estimate = over_rows(after - min_ratio * before)
    means = float(before.mean()), float(after.mean())
    return Gate(min_ratio, *means, means[1] / means[0], estimate.mean, estimate.low, len(before))
