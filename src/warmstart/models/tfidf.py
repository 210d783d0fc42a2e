"""TF-IDF: what counting words is worth, before any encoder.

An encoder that is not better than this is not worth its cost, whatever its score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from warmstart.models.linear_probe import LinearClassifier, ProbeKind, Solver, Targets, Vectors

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

WORDS: dict[str, object] = {"token_pattern": r"\w+|[^\w\s]", "ngram_range": (1, 2)}
CHARACTERS: dict[str, object] = {"analyzer": "char", "ngram_range": (1, 3)}
SPACES = 0.02
"""Share of spaces below which a text is taken to be in a script without them, where characters are counted."""

MAX_WORDS, MAX_WEIGHTS = 50_000, 50_000_000
"""The most words and weights of a cross-validation, so that it fits into any memory."""


def counted(texts: Sequence[str]) -> dict[str, object]:
    """What to count in such texts: words and pairs of adjacent words, or one to three characters."""
    some = "".join(texts[:1000])
    return WORDS if sum(map(str.isspace, some)) >= SPACES * len(some) else CHARACTERS


def vectorizer(texts: Sequence[str], most: int | None = None) -> TfidfVectorizer:
    """A vectorizer for such texts, which is not fitted yet.

    Args:
        most: How many words it counts, the most frequent ones; None for all.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, max_features=most, **counted(texts))


def cross_validate(
    texts: Sequence[str], targets: Targets, kind: ProbeKind, outputs: int, folds: Sequence[Sequence[int]]
) -> list[Vectors]:
    """The outputs of a linear SVM on TF-IDF vectors for the rows of each fold, fitted to those of the others.

    A support vector machine predicts as well as a logistic regression here, in a tenth of the time: on 4,000 rows of
    clinc150 71.2 against 71.7%, in 1.2 against 13.7 s.

    Args:
        folds: The numbers of the rows that are held out together; other rows are not used.
    """
    vectors = vectorizer(texts, min(MAX_WORDS, MAX_WEIGHTS // outputs)).fit_transform(texts)
    solver = Solver(kind, outputs, classifier=_svm)
    every = np.concatenate([np.asarray(fold) for fold in folds])
    splits = [(np.setdiff1d(every, fold), np.asarray(fold)) for fold in folds]
    return [solver.predict(vectors, targets, split, 1.0) for split in splits]


def predict_others(
    texts: Sequence[str], targets: Targets, kind: ProbeKind, outputs: int, others: Sequence[str]
) -> Vectors:
    """The outputs of such an SVM for other texts."""
    counts = vectorizer(texts, min(MAX_WORDS, MAX_WEIGHTS // outputs))
    solver = Solver(kind, outputs, classifier=_svm)
    weight, bias = solver.solve(counts.fit_transform(texts), targets, 1.0)
    return np.asarray(counts.transform(others) @ weight.T + bias, dtype=np.float32)


def _svm(strength: float, labels: int) -> LinearClassifier:
    from sklearn.svm import LinearSVC

    classifier: LinearClassifier = LinearSVC(C=strength, random_state=0)
    return classifier
