"""Numbers with their uncertainty: means with intervals, tests of a difference, corrections for multiple comparisons.

Two questions are kept apart. *Over seeds*: would another training seed show this too? *Over rows*: would other test
rows of this kind?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 9999
_ELEMENTS = 10_000_000
"""Numbers held in memory at once while resampling."""


@dataclass(frozen=True)
class MeanEstimate:
    """A mean with its 95% confidence interval; the bounds are NaN if there is only one value."""

    mean: float
    low: float
    high: float
    count: int
    """How many values it is the mean of."""
    p: float = math.nan
    """The p value: how likely a mean this far from 0 would be if the true one were 0; only for a difference."""


def over_seeds(values: ArrayLike) -> MeanEstimate:
    """Mean over training seeds with its t interval: where the mean over many seeds would lie, on these test rows."""
    sample = np.asarray(values, dtype=float)
    mean = float(sample.mean()) if len(sample) else math.nan
    if len(sample) < 2:
        return MeanEstimate(mean, math.nan, math.nan, len(sample))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(sample) - 1) * stats.sem(sample))
    return MeanEstimate(mean, mean - half, mean + half, len(sample))


def difference_over_seeds(values: ArrayLike, others: ArrayLike) -> MeanEstimate:
    """Mean difference of runs paired by seed, with its t interval and p: whether other seeds would show it too."""
    differences = np.asarray(values, dtype=float) - np.asarray(others, dtype=float)
    estimate = over_seeds(differences)
    if len(differences) < 2:
        return estimate
    # Differences that are all the same leave the t test without a spread to measure by.
    p = float(stats.ttest_1samp(differences, 0.0).pvalue) if np.ptp(differences) > 0 else float(estimate.mean == 0)
    return MeanEstimate(estimate.mean, estimate.low, estimate.high, estimate.count, p)


def hedges(difference: MeanEstimate) -> float:
    """The standardized size of a difference over seeds: Cohen's d for pairs, with the correction of Hedges (1981).

    NaN where one seed alone, or seeds without any spread, leave nothing to measure by.
    """
    count = difference.count
    if count < 2 or difference.high == difference.low:
        return math.nan
    half = (difference.high - difference.low) / 2
    spread = half / float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * math.sqrt(count)
    return difference.mean / spread * (1 - 3 / (4 * count - 5))


def over_rows(scores: ArrayLike, seed: int = 0) -> MeanEstimate:
    """Mean over test rows with its bootstrap interval: where it would lie on many other rows of this kind.

    Args:
        scores: One number per row, of one model or averaged over seeds; rows with NaN have no score of their own.
        seed: Seed of the resampling.
    """
    sample = scored(scores)
    mean = float(sample.mean()) if len(sample) else math.nan
    if len(sample) < 2:
        return MeanEstimate(mean, math.nan, math.nan, len(sample))
    if np.ptp(sample) == 0:
        return MeanEstimate(mean, mean, mean, len(sample))
    resampled = stats.bootstrap((sample,), np.mean, method="percentile", **_resampling(len(sample), seed))
    low, high = resampled.confidence_interval
    return MeanEstimate(mean, float(low), float(high), len(sample))


def difference_over_rows(scores: ArrayLike, others: ArrayLike, seed: int = 0) -> MeanEstimate:
    """Mean difference of scores paired by row, with its bootstrap interval and the p of a permutation test.

    Whether other test rows of this kind would show it too. The test swaps the two scores of a row at random:
    if neither side were better, that would change nothing.
    """
    differences = scored(np.asarray(scores, dtype=float) - np.asarray(others, dtype=float))
    estimate = over_rows(differences, seed)
    # Rows without a difference are the same after any swap, so they are left out of the swapping.
    unequal = differences[differences != 0]
    if len(unequal) < 2:  # one row speaks as much for either side
        return MeanEstimate(estimate.mean, estimate.low, estimate.high, estimate.count, 1.0)
    # With one sample given, SciPy flips signs of differences, which is to swap the two scores of a row.
    test = stats.permutation_test(
        (unequal,), _sum, permutation_type="samples", vectorized=True, **_resampling(len(unequal), seed)
    )
    return MeanEstimate(estimate.mean, estimate.low, estimate.high, estimate.count, float(test.pvalue))


def scored(scores: ArrayLike) -> NDArray[np.float64]:
    """The scores of rows that have one."""
    values: NDArray[np.float64] = np.asarray(scores, dtype=float)
    known: NDArray[np.float64] = values[~np.isnan(values)]
    return known


def mcnemar(won: int, lost: int) -> float:
    """The p value that two models are right equally often, from the rows that only one of them has right.

    McNemar's test with the mid-p value: the exact one finds too little, the one by chi-square too much where rows are
    few (Fagerland et al. 2013, "The McNemar test for binary matched-pairs data").
    """
    if won == lost:
        return 1.0
    fewer = min(won, lost)
    exact = stats.binomtest(fewer, won + lost).pvalue
    return float(exact - stats.binom.pmf(fewer, won + lost, 0.5))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for being many (Holm 1979): below 0.05 at most once in 20 such families by chance.

    What is NaN stays so, and does not count as a comparison.
    """
    order = sorted((index for index, p in enumerate(p_values) if p == p), key=lambda index: p_values[index])
    corrected, largest = list(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def _sum(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return np.asarray(values.sum(axis=axis))


def _resampling(size: int, seed: int) -> dict[str, Any]:
    return {"n_resamples": RESAMPLES, "batch": max(1, _ELEMENTS // size), "rng": np.random.default_rng(seed)}
