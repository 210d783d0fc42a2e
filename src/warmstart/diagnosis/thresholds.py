"""Thresholds: the confidence below which to give no answer, for a target precision or a share of rows.

Selective classification with a bound, as in Geifman & El-Yaniv 2017: chosen on some rows, measured on others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from warmstart.errors import RecipeError
from warmstart.evaluation.records.diagnosis import Threshold

CONFIDENCE_LEVEL = 0.95
"""How certain it is to be that a precision is reached."""

Numbers = NDArray[np.float64]
Right = NDArray[np.bool_]


def for_precision(confidence: Numbers, right: Right, target: float) -> float | None:
    """The least confidence from which on the share of right answers reaches a target; None where it never does.

    By the lower bound of that share (binomial, 95%), since a few rows may all be right by chance.
    """
    order = np.argsort(-confidence, kind="stable")
    good, count = np.cumsum(right[order]), np.arange(1, len(order) + 1)
    precision = np.where(good > 0, stats.beta.ppf(1 - CONFIDENCE_LEVEL, np.maximum(good, 1), count - good + 1), 0.0)
    last_of_equals = np.append(confidence[order][1:] != confidence[order][:-1], True)
    reached = np.flatnonzero((precision >= target) & last_of_equals)
    if not len(reached):
        return None
    return 0.0 if reached[-1] + 1 == len(order) else float(confidence[order][reached[-1]])


def for_abstaining(confidence: Numbers, share: float) -> float:
    """The confidence below which a share of answers lies, or a little less."""
    return float(np.quantile(confidence, share, method="lower"))


def measure(confidence: Numbers, right: Right, least: float | None, chosen_on: str) -> Threshold:
    """How many rows are answered with at least a confidence, and how many of those answers are right."""
    above = np.zeros(len(right), dtype=bool) if least is None else confidence >= least
    answered, good = int(above.sum()), int(right[above].sum())
    precision = low = high = None
    if answered:
        interval = stats.binomtest(good, answered).proportion_ci(method="wilson")
        precision, low, high = good / answered, float(interval.low), float(interval.high)
    return Threshold(
        confidence=least,
        answered=answered / len(right),
        rows=len(right),
        measured=precision,
        low=low,
        high=high,
        chosen_on=chosen_on,
    )


def check_share(name: str, value: float) -> None:
    """Refuse a number that is not between 0 and 1."""
    if not 0 < value < 1:
        raise RecipeError(f"{name} {value}: expected a share between 0 and 1, as 0.95")
