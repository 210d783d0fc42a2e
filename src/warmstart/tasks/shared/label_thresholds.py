"""The threshold of a label, chosen on rows whose labels are known: for the best F1, or for a precision or recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

ThresholdMetric: TypeAlias = Literal["f1", "precision", "recall"]


def choose_threshold(
    probabilities: Sequence[float], truth: Sequence[bool], metric: ThresholdMetric, target: float | None, default: float
) -> float:
    """The probability from which on to predict a label.

    For `f1`, that of the highest F1. For `precision`, the lowest that reaches the target, so that recall is as high as
    it can be, or that of the highest precision where none does. For `recall`, the highest that reaches the target. Of
    several that are as good, the one nearest to the default.

    Args:
        truth: Whether each row has the label; where none has, the default is returned.
        target: The precision or recall to reach.
    """
    scores, right = np.asarray(probabilities, dtype=float), np.asarray(truth, dtype=bool)
    if not right.any():
        return default
    order = np.argsort(-scores, kind="stable")
    scores, hits = scores[order], np.cumsum(right[order])
    last = np.append(scores[1:] < scores[:-1], True)  # rows of the same probability are predicted together
    predicted, hits = np.arange(1, len(scores) + 1)[last], hits[last]
    # Halfway to the next row, since a new row falls on either side; for a precision, at the last row that is right
    # enough, since most new rows do not have the label.
    halfway = (scores[last] + np.append(scores[last][1:], 0.0)) / 2
    thresholds = scores[last] if metric == "precision" else halfway
    precision, recall = hits / predicted, hits / right.sum()
    if metric == "f1":
        good = _best(2 * hits / (predicted + right.sum()))
    elif metric == "recall":
        good = np.flatnonzero(recall >= (target or 0.0) - 1e-9)[:1]
    else:
        reached = np.flatnonzero(precision >= (target or 0.0) - 1e-9)[-1:]
        good = reached if len(reached) else _best(precision)
    choices = thresholds[good]
    return float(choices[np.abs(choices - default).argmin()])


def _best(values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(values >= values.max() - 1e-12)
