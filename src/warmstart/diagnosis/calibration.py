"""Calibration: whether probabilities can be believed, and the temperature that makes them so.

"On Calibration of Modern Neural Networks", Guo et al. 2017: the logits are divided by one number, chosen by the
likelihood of other rows. No other answer becomes the likeliest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from warmstart.tasks.shared.task_config import COLDEST, HOTTEST

BINS = 15
Numbers = NDArray[np.float64]
_SMALLEST = np.finfo(float).tiny


def logits_of(given: Sequence[Mapping[str, Any]]) -> Numbers:
    """Logits, up to a number that is the same for a row, from its probabilities; minus infinity where it has fewer."""
    rows = [_listed(one["probabilities"]) for one in given]
    found = np.full((len(rows), max(map(len, rows))), -np.inf)
    for number, row in enumerate(rows):
        found[number, : len(row)] = np.log(np.maximum(row, _SMALLEST))
    return found


def targets_of(answers: Sequence[Any], given: Sequence[Mapping[str, Any]]) -> NDArray[np.int64]:
    """The place of each row's true answer among its probabilities."""
    first = given[0]["probabilities"]
    if isinstance(first, Mapping):
        place = {name: number for number, name in enumerate(first)}
        return np.array([place[answer] for answer in answers])
    return np.array([int(answer) for answer in answers])


def chances(logits: Numbers, temperature: float) -> Numbers:
    """Probabilities at a temperature."""
    scaled = logits / temperature
    found: Numbers = np.exp(scaled - logsumexp(scaled, axis=1, keepdims=True))
    return found


def fit_temperature(logits: Numbers, targets: NDArray[np.int64]) -> float:
    """The temperature at which the true answers are the likeliest as a whole."""
    rows = np.arange(len(targets))

    def loss(power: float) -> float:
        scaled = logits / np.exp(power)
        return float((logsumexp(scaled, axis=1) - scaled[rows, targets]).mean())

    found = minimize_scalar(loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded")
    return float(np.clip(np.exp(found.x), COLDEST, HOTTEST))


def reliability(confidence: Numbers, right: NDArray[np.bool_]) -> dict[str, Any]:
    """The expected calibration error over 15 bins of equal width, and each bin that has rows (Guo et al. 2017, §2)."""
    place = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    bins, error = [], 0.0
    for number in range(BINS):
        inside = place == number
        if inside.any():
            mean, share = float(confidence[inside].mean()), float(right[inside].mean())
            error += abs(mean - share) * inside.mean()
            edges = {"low": number / BINS, "high": (number + 1) / BINS}
            bins.append({**edges, "rows": int(inside.sum()), "confidence": mean, "accuracy": share})
    return {"ece": float(error), "bins": bins}


def calibrate(
    fit: tuple[Numbers, NDArray[np.int64]], measure: tuple[Numbers, NDArray[np.int64]], on: str
) -> dict[str, Any]:
    """The temperature fitted on some rows, and how far probabilities are to be believed on others before and after."""
    temperature = fit_temperature(*fit)
    logits, targets = measure
    right = logits.argmax(axis=1) == targets
    before, after = (reliability(chances(logits, one).max(axis=1), right) for one in (1.0, temperature))
    measured = {"rows": len(targets), "accuracy": float(right.mean())}
    return {"temperature": temperature, "fitted_on": on, **measured, "before": before, "after": after}


def halves(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two halves of rows at random, the same for the same number of rows."""
    order = np.random.default_rng(0).permutation(count)
    return np.sort(order[: count // 2]), np.sort(order[count // 2 :])


def _listed(probabilities: Any) -> list[float]:
    return list(probabilities.values() if isinstance(probabilities, Mapping) else probabilities)
