"""Calibration: whether probabilities can be trusted, and what they are at the temperature that makes them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from warmstart.evaluation.records.diagnosis import Calibration, Reliability, ReliabilityBin
from warmstart.models.temperature import fit_temperature
from warmstart.tasks.base import Answer

BINS = 15
Numbers = NDArray[np.float64]
Targets = NDArray[np.int64]
_SMALLEST = np.finfo(float).tiny


def logits_of(answers: Sequence[Answer]) -> Numbers:
    """Logits, up to a constant per row, from probabilities; minus infinity where a row has fewer of them."""
    rows = [_listed(answer["probabilities"]) for answer in answers]
    logits = np.full((len(rows), max(map(len, rows))), -np.inf)
    for number, row in enumerate(rows):
        logits[number, : len(row)] = np.log(np.maximum(row, _SMALLEST))
    return logits


def targets_of(truth: Sequence[str] | Sequence[int], answers: Sequence[Answer]) -> Targets:
    """The index of each row's true answer among its probabilities."""
    first = answers[0]["probabilities"]
    if isinstance(first, Mapping):
        indices = {name: number for number, name in enumerate(first)}
        return np.array([indices[name] for name in truth])
    return np.array([int(number) for number in truth])


def probabilities(logits: Numbers, temperature: float) -> Numbers:
    """Probabilities at a temperature."""
    scaled = logits / temperature
    normalized: Numbers = np.exp(scaled - logsumexp(scaled, axis=1, keepdims=True))
    return normalized


def reliability(confidence: Numbers, right: NDArray[np.bool_]) -> Reliability:
    """The expected calibration error over 15 bins of equal width, and each bin that has rows (Guo et al. 2017, §2)."""
    bin_of = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    bins, error = [], 0.0
    for number in range(BINS):
        inside = bin_of == number
        if inside.any():
            mean, share = float(confidence[inside].mean()), float(right[inside].mean())
            error += abs(mean - share) * inside.mean()
            bins.append(ReliabilityBin(number / BINS, (number + 1) / BINS, int(inside.sum()), mean, share))
    return Reliability(float(error), bins)


def calibrate(fit: tuple[Numbers, Targets], measure: tuple[Numbers, Targets], on: str) -> Calibration:
    """The temperature fitted on some rows, and how reliable probabilities are on others before and after."""
    temperature = fit_temperature(*fit)
    logits, targets = measure
    right = logits.argmax(axis=1) == targets
    before, after = (reliability(probabilities(logits, scale).max(axis=1), right) for scale in (1.0, temperature))
    return Calibration(temperature, on, len(targets), float(right.mean()), before, after)


def halves(count: int) -> tuple[Targets, Targets]:
    """Two random halves of rows, the same for the same number of rows."""
    order = np.random.default_rng(0).permutation(count)
    return np.sort(order[: count // 2]), np.sort(order[count // 2 :])


def _listed(distribution: Mapping[str, float] | Sequence[float]) -> list[float]:
    return list(distribution.values() if isinstance(distribution, Mapping) else distribution)
