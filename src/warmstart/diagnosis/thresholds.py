"""Thresholds: the confidence below which to give no answer, for a wanted precision or a share held back.

Selective classification with a bound, as in Geifman & El-Yaniv 2017: chosen on some rows, measured on others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from warmstart.errors import RecipeError

SURE = 0.95
"""How sure a precision is to be."""

Numbers = NDArray[np.float64]
Right = NDArray[np.bool_]


def for_precision(confidence: Numbers, right: Right, wanted: float) -> float | None:
    """The least confidence from which up the share of right answers is surely as wanted; None where it never is.

    Surely: by the lower bound of that share (binomial, 95%), since a few rows may all be right by chance.
    """
    order = np.argsort(-confidence, kind="stable")
    good, count = np.cumsum(right[order]), np.arange(1, len(order) + 1)
    precision = np.where(good > 0, stats.beta.ppf(1 - SURE, np.maximum(good, 1), count - good + 1), 0.0)
    last_of_equals = np.append(confidence[order][1:] != confidence[order][:-1], True)
    reached = np.flatnonzero((precision >= wanted) & last_of_equals)
    if not len(reached):
        return None
    return 0.0 if reached[-1] + 1 == len(order) else float(confidence[order][reached[-1]])


def for_abstaining(confidence: Numbers, share: float) -> float:
    """The confidence below which lies the share of answers to hold back, or a little less."""
    return float(np.quantile(confidence, share, method="lower"))


def measured(confidence: Numbers, right: Right, least: float | None) -> dict[str, Any]:
    """How many of other rows are answered from a confidence up, and how many of those answers are right."""
    kept = np.zeros(len(right), dtype=bool) if least is None else confidence >= least
    answered, good = int(kept.sum()), int(right[kept].sum())
    found: dict[str, Any] = {"confidence": least, "answered": answered / len(right), "rows": len(right)}
    if not answered:
        return {**found, "measured": None, "low": None, "high": None}
    interval = stats.binomtest(good, answered).proportion_ci(method="wilson")
    return {**found, "measured": good / answered, "low": float(interval.low), "high": float(interval.high)}


def check_share(name: str, value: float) -> None:
    """Refuse what is no share between 0 and 1."""
    if not 0 < value < 1:
        raise RecipeError(f"{name} {value}: expected a share between 0 and 1, as 0.95")
