"""Ways to choose the rows to label next: by what a model is unsure of, by what no labelled row is near, or by both.

Uncertainty sampling: "A Sequential Algorithm for Training Text Classifiers", Lewis and Gale 1994. Margin: "Active
Hidden Markov Models for Information Extraction", Scheffer et al. 2001. Disagreement: "Bayesian Active Learning for
Classification and Preference Learning", Houlsby et al. 2011. Coverage: "Active Learning for Convolutional Neural
Networks: A Core-Set Approach", Sener and Savarese 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.floating]
Strategy = Literal["entropy", "margin", "disagreement", "coverage", "mixed", "random"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
DEFAULT: Strategy = "mixed"
"""It needed the fewest rows on six public sets (docs/results/ask.md)."""
SHORTLIST = 2
"""With `mixed`, of how many times the wanted rows, by margin, the most different ones are taken."""
READS_PROBABILITIES = frozenset(("entropy", "margin", "disagreement", "mixed"))
READS_VECTORS = frozenset(("coverage", "mixed"))
BLOCK = 4096
"""Labelled rows compared with the pool at a time."""


@dataclass(frozen=True)
class Pool:
    """What is known of the unlabelled rows; a strategy needs some of it.

    Args:
        count: How many rows there are.
        probabilities: The probability of each label, of shape (rows, labels).
        members: The same by each of several models, of shape (models, rows, labels).
        vectors: A vector of each row.
        labelled: The vectors of the rows that are labelled already.
        multi_label: Whether the labels of a row are independent of each other.
    """

    count: int
    probabilities: Numbers | None = None
    members: Numbers | None = None
    vectors: Numbers | None = None
    labelled: Numbers | None = None
    multi_label: bool = False


def choose_rows(
    strategy: Strategy, pool: Pool, count: int, accept: Callable[[int], bool] = lambda row: True, seed: int = 0
) -> list[int]:
    """The rows to label, the most wanted first; fewer than `count` if no more are accepted.

    Args:
        accept: Whether a row may be chosen, asked for each in turn; it knows what was chosen before.
        seed: Breaks ties, and chooses with `random`.
    """
    order = np.random.default_rng(seed).permutation(pool.count)
    if strategy == "random":
        return _take(order, count, accept)
    if strategy == "coverage":
        return farthest_first(_present(pool.vectors), pool.labelled, order, count, accept)
    scores = uncertainty(strategy, pool)
    ranked = order[np.argsort(-scores[order], kind="stable")]
    if strategy != "mixed":
        return _take(ranked, count, accept)
    shortlist, rest = ranked[: SHORTLIST * count], ranked[SHORTLIST * count :]
    spread = farthest_first(_present(pool.vectors), None, shortlist, count, accept)
    # A shortlist of near-duplicates has fewer rows than are wanted.
    return spread + _take(rest, count - len(spread), accept)


def uncertainty(strategy: Strategy, pool: Pool) -> NDArray[np.float64]:
    """How unsure the model is of each row, the higher the more; `mixed` is unsure by its margin."""
    if strategy == "disagreement":
        members = _present(pool.members).astype(np.float64)
        each = np.stack([_entropy(member, pool.multi_label) for member in members])
        return np.asarray(_entropy(members.mean(axis=0), pool.multi_label) - each.mean(axis=0), dtype=np.float64)
    probabilities = _present(pool.probabilities).astype(np.float64)
    if strategy == "entropy":
        return _entropy(probabilities, pool.multi_label)
    if pool.multi_label:
        return np.asarray(-np.abs(2 * probabilities - 1).min(axis=1), dtype=np.float64)
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities))
    second, first = np.partition(probabilities, -2, axis=1)[:, -2:].T
    return np.asarray(second - first, dtype=np.float64)


def farthest_first(
    vectors: Numbers, labelled: Numbers | None, order: NDArray[np.int64], count: int, accept: Callable[[int], bool]
) -> list[int]:
    """Rows that are far from the labelled ones and from each other, by the greedy solution of the k-centre problem.

    Args:
        order: The rows to choose from. The first is chosen first where nothing is labelled.
    """
    candidates = _unit(vectors[order])
    distances = np.full(len(order), np.inf)
    if labelled is not None and len(labelled):
        known = _unit(labelled)
        for start in range(0, len(known), BLOCK):
            nearest = (candidates @ known[start : start + BLOCK].T).max(axis=1)
            distances = np.minimum(distances, 1 - nearest)
    chosen: list[int] = []
    while len(chosen) < count and distances.max(initial=-np.inf) > -np.inf:
        place = int(distances.argmax())
        distances[place] = -np.inf
        if accept(int(order[place])):
            chosen.append(int(order[place]))
            np.minimum(distances, 1 - candidates @ candidates[place], out=distances)
    return chosen


def _take(rows: Iterable[np.int64], count: int, accept: Callable[[int], bool]) -> list[int]:
    chosen: list[int] = []
    for row in rows:
        if len(chosen) == count:
            break
        if accept(int(row)):
            chosen.append(int(row))
    return chosen


def _entropy(probabilities: NDArray[np.float64], multi_label: bool) -> NDArray[np.float64]:
    positive = np.clip(probabilities, 1e-12, 1.0)
    terms = -positive * np.log(positive)
    if multi_label:
        other = np.clip(1 - probabilities, 1e-12, 1.0)
        terms = terms - other * np.log(other)
    return np.asarray(terms.sum(axis=1), dtype=np.float64)


def _unit(vectors: Numbers) -> Numbers:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def _present(values: Numbers | None) -> Numbers:
    if values is None:
        raise ValueError("the pool lacks what this strategy reads")
    return values
