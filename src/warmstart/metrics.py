"""Numbers that say how good predictions are: plain functions on lists and arrays, over scikit-learn and SciPy."""

from __future__ import annotations

import re
import string
from collections import Counter
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


def found_answer(gold: Sequence[str], given: str, characters: bool = False) -> tuple[float, float]:
    """Exact match and F1 of an answer beside the best of the right ones, as SQuAD's own scripts compute them.

    Case, punctuation, English articles and spacing do not count (Rajpurkar et al. 2016). Where no answer is right, an
    empty one is (Rajpurkar et al. 2018).

    Args:
        gold: The right answers; none where the question has none.
        characters: Take F1 over characters, for languages written without spaces.
    """
    told = _plain(given)
    right = [text for text in map(_plain, gold) if text] or [""]
    return float(told in right), max(_overlap(text, told, characters) for text in right)


def answers(gold: Sequence[Sequence[str]], given: Sequence[str], characters: bool = False) -> dict[str, float]:
    """The means of `found_answer`, and of questions with and without an answer apart where there are both."""
    scores = [found_answer(right, answer, characters) for right, answer in zip(gold, given, strict=True)]
    found = {"f1": [f1 for _, f1 in scores], "exact": [exact for exact, _ in scores]}
    has = [bool(right) for right in gold]
    if len(set(has)) == 2:
        for name in ("f1", "exact"):
            found[f"has_answer_{name}"] = [score for score, there in zip(found[name], has, strict=True) if there]
        found["no_answer_accuracy"] = [exact for (exact, _), there in zip(scores, has, strict=True) if not there]
    return {name: float(np.mean(values)) for name, values in found.items()}


def no_answer_threshold(scores: Sequence[float], doubts: Sequence[float], has_answer: Sequence[bool]) -> float:
    """The doubt above which to give no answer, so that the mean score is best: SQuAD 2.0's `find_best_thresh`.

    Args:
        scores: How good each question's answer is, if it is given.
        doubts: How much speaks against each question's having an answer.
    """
    order = sorted(range(len(doubts)), key=doubts.__getitem__)
    best = current = float(sum(not there for there in has_answer))
    threshold = doubts[order[0]] - 1  # nothing is answered
    for place, index in enumerate(order):
        current += scores[index] if has_answer[index] else -1
        last_of_equals = place + 1 == len(order) or doubts[order[place + 1]] > doubts[index]
        if current > best and last_of_equals:
            best, threshold = current, doubts[index]
    return threshold


def _plain(answer: str) -> str:
    """An answer without case, punctuation, articles and spacing."""
    text = "".join(character for character in answer.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _overlap(gold: str, given: str, characters: bool) -> float:
    """F1 of two bags of words, or of characters."""
    right, told = (list(text.replace(" ", "")) if characters else text.split() for text in (gold, given))
    if not right or not told:
        return float(right == told)
    same = (Counter(right) & Counter(told)).total()
    return 2 * same / (len(right) + len(told))
