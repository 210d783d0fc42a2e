"""Scores of predictions: plain functions on lists and arrays, over scikit-learn, SciPy and seqeval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics as sk

from warmstart.errors import MissingExtra


def one_label(gold: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """Accuracy, macro F1 (over the labels found in gold or predicted) and Matthews correlation."""
    return {
        "accuracy": float(sk.accuracy_score(gold, predicted)),
        "macro_f1": float(sk.f1_score(gold, predicted, average="macro", zero_division=0)),
        "matthews": float(sk.matthews_corrcoef(gold, predicted)),
    }


def many_labels(gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> dict[str, float]:
    """Micro and macro F1, and the share of rows whose set of labels is exactly right; rows of 0 and 1."""
    truth, answer = np.asarray(gold), np.asarray(predicted)
    return {
        "micro_f1": float(sk.f1_score(truth, answer, average="micro", zero_division=0)),
        "macro_f1": float(sk.f1_score(truth, answer, average="macro", zero_division=0)),
        "exact": float((truth == answer).all(axis=1).mean()),
    }


def numbers(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson and Spearman correlation, mean absolute and root mean squared error.

    A correlation is NaN where either side has one value only: it is then undefined, not zero.
    """
    truth, answer = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    varied = len(truth) > 1 and np.ptp(truth) > 0 and np.ptp(answer) > 0
    return {
        "pearson": float(stats.pearsonr(truth, answer)[0]) if varied else float("nan"),
        "spearman": float(stats.spearmanr(truth, answer)[0]) if varied else float("nan"),
        "mae": float(sk.mean_absolute_error(truth, answer)),
        "rmse": float(sk.root_mean_squared_error(truth, answer)),
    }


def entities(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 over all entities, and the mean F1 over types, from rows of BIO tags.

    By seqeval in its strict mode (scheme IOB2): an entity counts where its first word, last word and type are right.
    """
    seqeval = need_seqeval()
    from seqeval.scheme import IOB2

    strict = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
    rows = [list(row) for row in gold], [list(row) for row in predicted]
    if not any(tag != "O" for row in (*rows[0], *rows[1]) for tag in row):
        return dict.fromkeys(("f1", "precision", "recall", "macro_f1"), float("nan"))  # nothing to find, nothing found
    return {
        "f1": float(seqeval.f1_score(*rows, **strict)),
        "precision": float(seqeval.precision_score(*rows, **strict)),
        "recall": float(seqeval.recall_score(*rows, **strict)),
        "macro_f1": float(seqeval.f1_score(*rows, average="macro", **strict)),
    }


def need_seqeval() -> Any:
    """The library that scores entities; an error that says how to get it where it is missing."""
    try:
        import seqeval.metrics
    except ImportError:
        raise MissingExtra("tagging is measured by seqeval: pip install 'warmstart[tag]'") from None
    return seqeval.metrics
