"""The loop of asking and labelling, simulated on rows whose labels are known: what each strategy saves, if anything.

The learner is a logistic regression on vectors of a frozen encoder, which a round takes a second to fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.active_learning.strategies import Numbers, Pool, Strategy, choose_rows

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

C = 10.0
"""The inverse strength of the penalty, on vectors of length 1."""
GROWTH = 0.2
"""Rows asked for in a round, as a share of those that are labelled, once that is more than in the first round."""
COMMITTEE = 3
"""Models that may disagree, each fitted to another resample of the labelled rows."""


@dataclass(frozen=True)
class LabelledSet:
    """Vectors and labels of rows to ask for, and of the rows that the learner is tested on."""

    vectors: Numbers
    labels: NDArray[np.str_]
    test_vectors: Numbers
    test_labels: NDArray[np.str_]


@dataclass(frozen=True)
class LearningCurve:
    """The accuracy on test rows after each round."""

    rows: list[int]
    accuracy: list[float]

    def rows_to(self, target: float) -> float:
        """How many labelled rows reach an accuracy, interpolated between rounds; infinite where none do."""
        for number, (rows, accuracy) in enumerate(zip(self.rows, self.accuracy, strict=True)):
            if accuracy >= target:
                if number == 0:
                    return float(rows)
                before, low = self.rows[number - 1], self.accuracy[number - 1]
                return before + (rows - before) * (target - low) / (accuracy - low)
        return float("inf")


def round_sizes(first: int, pool: int) -> list[int]:
    """How many rows are labelled after each round, up to all of them.

    A round asks for as many rows as the first one, and for a fifth of the labelled rows where that is more.
    """
    sizes = [min(first, pool)]
    while sizes[-1] < pool:
        sizes.append(min(pool, sizes[-1] + max(first, int(GROWTH * sizes[-1]))))
    return sizes


def full_accuracy(data: LabelledSet) -> float:
    """The accuracy of the learner with all rows labelled."""
    return _accuracy(_fit(data.vectors, data.labels), data)


def simulate(
    data: LabelledSet, strategy: Strategy, sizes: Sequence[int], seed: int, target: float = np.inf
) -> LearningCurve:
    """Label as many rows as `sizes` says after each round, and measure the learner; stop where it reaches the target.

    The first round is of random rows, the same for every strategy.
    """
    first = np.random.default_rng(seed).permutation(len(data.labels))[: sizes[0]]
    labelled = [int(row) for row in first]
    curve = LearningCurve([], [])
    model: LogisticRegression | None = None
    for number, size in enumerate(sizes):
        if number:
            left = np.setdiff1d(np.arange(len(data.labels)), labelled)
            chosen = choose_rows(strategy, _pool(data, strategy, model, labelled, left, seed), size - len(labelled),
                                 seed=seed * 1000 + number)  # fmt: skip
            labelled += left[chosen].tolist()
        # In the order of the file: with all rows, this is the model of `full_accuracy`, whatever the strategy.
        in_order = np.sort(labelled)
        model = _fit(data.vectors[in_order], data.labels[in_order])
        curve.rows.append(size)
        curve.accuracy.append(_accuracy(model, data))
        if curve.accuracy[-1] >= target:
            break
    return curve


def _pool(
    data: LabelledSet,
    strategy: Strategy,
    model: LogisticRegression | None,
    labelled: list[int],
    left: NDArray[np.int64],
    seed: int,
) -> Pool:
    """What a strategy may know of the rows that are left."""
    vectors = data.vectors[left]
    if strategy in ("random", "coverage") or model is None:
        return Pool(len(left), vectors=vectors, labelled=data.vectors[labelled])
    if strategy == "disagreement":
        return Pool(len(left), members=_committee(data, model, labelled, vectors, seed))
    return Pool(len(left), model.predict_proba(vectors), vectors=vectors)


def _committee(
    data: LabelledSet, model: LogisticRegression, labelled: list[int], vectors: Numbers, seed: int
) -> Numbers:
    """Probabilities of all labels by each of several models."""
    random = np.random.default_rng((seed, len(labelled)))
    members = np.zeros((COMMITTEE, len(vectors), len(model.classes_)))
    for member in members:
        drawn = np.array(labelled)[random.integers(0, len(labelled), len(labelled))]
        if len(set(data.labels[drawn].tolist())) < 2:
            drawn = np.array(labelled)
        other = _fit(data.vectors[drawn], data.labels[drawn])
        member[:, np.searchsorted(model.classes_, other.classes_)] = other.predict_proba(vectors)
    return members


def _fit(vectors: Numbers, labels: NDArray[np.str_]) -> LogisticRegression:
    """A logistic regression, from zero each time.

    One that starts from the round before stops at once where new rows change its gradient little, as random ones do,
    and would make every strategy look better than random rows.
    """
    from sklearn.linear_model import LogisticRegression

    # It warns of many labels with few rows each, as every loop starts.
    with warnings.catch_warnings(action="ignore"):
        return LogisticRegression(C=C, max_iter=1000).fit(vectors, labels)


def _accuracy(model: LogisticRegression, data: LabelledSet) -> float:
    return float((model.predict(data.test_vectors) == data.test_labels).mean())
