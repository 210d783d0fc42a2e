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


def choices(gold: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """The share of rows whose answer, one of several offered, is the right one."""
    return {"accuracy": float(sk.accuracy_score(gold, predicted))}


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


def relations(gold: Sequence[str], predicted: Sequence[str], other: str | None = None) -> dict[str, float]:
    """Macro and micro F1 over relations, and the accuracy over labels, as SemEval-2010 task 8 counts them.

    A label such as `Cause-Effect(e1,e2)` is a relation and its direction; the right relation in the wrong direction is
    a miss of that relation and a false find of it, both at once (Hendrickx et al. 2010, "SemEval-2010 Task 8", §4.2;
    the official (9+1)-way score). Relations that gold has not are not averaged.

    Args:
        other: The label of no relation, which is left out of both F1.
    """
    pairs = []
    for truth, answer in zip(gold, predicted, strict=True):
        pair = (relation_of(truth), relation_of(answer))
        # A class of its own on either side: scikit-learn knows no answer that is wrong though it is the right class.
        pairs += [pair] if truth == answer or pair[0] != pair[1] else [(pair[0], _NONE), (_NONE, pair[1])]
    wanted = sorted({relation_of(label) for label in gold if label != other})
    found = {}
    for average in ("macro", "micro"):
        sides = [list(side) for side in zip(*pairs, strict=True)]
        score = sk.f1_score(*sides, labels=wanted, average=average, zero_division=0) if wanted else float("nan")
        found[f"{average}_f1"] = float(score)
    return {**found, "accuracy": float(sk.accuracy_score(gold, predicted))}


def relation_of(label: str) -> str:
    """A label without its direction."""
    return label.removesuffix("(e1,e2)").removesuffix("(e2,e1)")


_NONE = "\0"
"""No relation has this name: a label may not hold it."""
