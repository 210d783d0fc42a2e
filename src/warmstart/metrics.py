"""Numbers that say how good predictions are: plain functions on lists and arrays, over scikit-learn and SciPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn import metrics as sk


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
