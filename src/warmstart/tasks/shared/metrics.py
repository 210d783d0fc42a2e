"""Scores of predictions: plain functions on lists and arrays, over scikit-learn, SciPy, seqeval and ir-measures.

Each is imported where it is used: a predictor scores nothing, and they take as long to import as PyTorch.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from warmstart.errors import MissingExtraError

if TYPE_CHECKING:
    from ir_measures import Measure


def one_label(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], positive: Hashable | None = None
) -> dict[str, float]:
    """Accuracy, macro F1 (over the labels in gold or predicted) and Matthews correlation coefficient.

    Args:
        positive: A label whose F1, precision and recall are computed as well.
    """
    from sklearn import metrics as sk

    values = {
        "accuracy": float(sk.accuracy_score(gold, predicted)),
        "macro_f1": float(sk.f1_score(gold, predicted, average="macro", zero_division=0)),
        "mcc": float(sk.matthews_corrcoef(gold, predicted)),
    }
    if positive is None:
        return values
    truth, answer = [label == positive for label in gold], [label == positive for label in predicted]
    scorers = {"f1": sk.f1_score, "precision": sk.precision_score, "recall": sk.recall_score}
    return values | {name: float(score(truth, answer, zero_division=0)) for name, score in scorers.items()}


def choices(gold: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """The share of rows whose answer, one of several offered, is the right one."""
    from sklearn import metrics as sk

    return {"accuracy": float(sk.accuracy_score(gold, predicted))}


def many_labels(gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> dict[str, float]:
    """Micro and macro F1, and the share of rows whose set of labels is exactly right; rows of 0 and 1."""
    from sklearn import metrics as sk

    truth, answer = np.asarray(gold), np.asarray(predicted)
    return {
        "micro_f1": float(sk.f1_score(truth, answer, average="micro", zero_division=0)),
        "macro_f1": float(sk.f1_score(truth, answer, average="macro", zero_division=0)),
        "exact_match": float((truth == answer).all(axis=1).mean()),
    }


def distributions(
    gold: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]], single: bool = True
) -> dict[str, float]:
    """How far predicted probabilities are from the true ones, the mean over rows; less is better.

    `brier` is the sum of squared differences (Brier 1950), `kl` the Kullback-Leibler divergence from the true
    distribution, in nats.

    Args:
        single: A row's probabilities are those of one label, and sum to 1; without, each label is by itself: `brier` is
            then the mean over labels too, and there is no `kl`.
    """
    from scipy import special

    truth, answer = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    squares = (truth - answer) ** 2
    if not single:
        return {"brier": float(squares.mean())}
    least = np.finfo(float).tiny
    divergence = special.rel_entr(truth, np.maximum(answer, least)).sum(axis=1)
    return {"brier": float(squares.sum(axis=1).mean()), "kl": float(divergence.mean())}


def numbers(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson and Spearman correlation, mean absolute and root mean squared error.

    A correlation is NaN where either side has one value only: it is then undefined, not zero.
    """
    from scipy import stats
    from sklearn import metrics as sk

    truth, answer = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    varied = len(truth) > 1 and np.ptp(truth) > 0 and np.ptp(answer) > 0
    return {
        "pearson": float(stats.pearsonr(truth, answer)[0]) if varied else float("nan"),
        "spearman": float(stats.spearmanr(truth, answer)[0]) if varied else float("nan"),
        "mae": float(sk.mean_absolute_error(truth, answer)),
        "rmse": float(sk.root_mean_squared_error(truth, answer)),
    }


def relations(gold: Sequence[str], predicted: Sequence[str], no_relation_label: str | None = None) -> dict[str, float]:
    """Macro and micro F1 over relations, and the accuracy over labels, as SemEval-2010 task 8 counts them.

    A label such as `Cause-Effect(e1,e2)` is a relation and its direction; the right relation in the wrong direction is
    a miss of that relation and a false find of it, both at once (Hendrickx et al. 2010, "SemEval-2010 Task 8", §4.2;
    the official (9+1)-way score). Relations that gold has not are not averaged.

    Args:
        no_relation_label: The label of no relation, which is left out of both F1.
    """
    from sklearn import metrics as sk

    pairs = []
    for truth, answer in zip(gold, predicted, strict=True):
        pair = (relation_of(truth), relation_of(answer))
        # A class of its own on either side: scikit-learn knows no answer that is wrong though it is the right class.
        pairs += [pair] if truth == answer or pair[0] != pair[1] else [(pair[0], _NONE), (_NONE, pair[1])]
    wanted = sorted({relation_of(label) for label in gold if label != no_relation_label})
    scores = {}
    for average in ("macro", "micro"):
        sides = [list(side) for side in zip(*pairs, strict=True)]
        score = sk.f1_score(*sides, labels=wanted, average=average, zero_division=0) if wanted else float("nan")
        scores[f"{average}_f1"] = float(score)
    return {**scores, "accuracy": float(sk.accuracy_score(gold, predicted))}


def relation_of(label: str) -> str:
    """A label without its direction."""
    return label.removesuffix("(e1,e2)").removesuffix("(e2,e1)")


_NONE = "\0"
"""No relation has this name: a label may not hold it."""


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


def need_seqeval() -> ModuleType:
    """The library that scores entities; where it is missing, an error with the command that installs it."""
    try:
        import seqeval.metrics
    except ImportError:
        raise MissingExtraError("tagging is evaluated by seqeval: pip install 'warmstart[tag]'") from None
    module: ModuleType = seqeval.metrics
    return module


def answer_scores(gold: Sequence[str], predicted: str, characters: bool = False) -> tuple[float, float]:
    """Exact match and F1 of an answer compared with the best of the right ones, as SQuAD's own scripts compute them.

    Case, punctuation, English articles and spacing do not count (Rajpurkar et al. 2016). Where no answer is right, an
    empty one is (Rajpurkar et al. 2018).

    Args:
        gold: The right answers; none where the question has none.
        characters: Take F1 over characters, for languages written without spaces.
    """
    given = _plain(predicted)
    right = [text for text in map(_plain, gold) if text] or [""]
    return float(given in right), max(_overlap(text, given, characters) for text in right)


def answers(gold: Sequence[Sequence[str]], predicted: Sequence[str], characters: bool = False) -> dict[str, float]:
    """The means of `answer_scores`, and those of questions with and without an answer where there are both."""
    scores = [answer_scores(right, answer, characters) for right, answer in zip(gold, predicted, strict=True)]
    by_metric = {"f1": [f1 for _, f1 in scores], "exact_match": [exact for exact, _ in scores]}
    has = [bool(right) for right in gold]
    if len(set(has)) == 2:
        for name in ("f1", "exact_match"):
            by_metric[f"has_answer_{name}"] = [
                score for score, there in zip(by_metric[name], has, strict=True) if there
            ]
        by_metric["no_answer_accuracy"] = [exact for (exact, _), there in zip(scores, has, strict=True) if not there]
    return {name: float(np.mean(values)) for name, values in by_metric.items()}


def no_answer_threshold(
    scores: Sequence[float], no_answer_scores: Sequence[float], has_answer: Sequence[bool]
) -> float:
    """The score above which to give no answer, so that the mean score is best: SQuAD 2.0's `find_best_thresh`.

    Args:
        scores: How good each question's answer is, if one is given.
        no_answer_scores: How much speaks against each question's having an answer.
    """
    order = sorted(range(len(no_answer_scores)), key=no_answer_scores.__getitem__)
    best = current = float(sum(not there for there in has_answer))
    threshold = no_answer_scores[order[0]] - 1  # nothing is answered
    for number, index in enumerate(order):
        current += scores[index] if has_answer[index] else -1
        last = number + 1 == len(order)
        last_of_equals = last or no_answer_scores[order[number + 1]] > no_answer_scores[index]
        if current > best and last_of_equals:
            best, threshold = current, no_answer_scores[index]
    return threshold


def _plain(answer: str) -> str:
    """An answer without case, punctuation, articles and spacing."""
    text = "".join(character for character in answer.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _overlap(gold: str, predicted: str, characters: bool) -> float:
    """F1 of two bags of words, or of characters."""
    right, given = (list(text.replace(" ", "")) if characters else text.split() for text in (gold, predicted))
    if not right or not given:
        return float(right == given)
    same = (Counter(right) & Counter(given)).total()
    return 2 * same / (len(right) + len(given))


Relevance: TypeAlias = Mapping[str, Mapping[str, int]]
"""By query and document, how relevant it is; above 0 it is."""
Scores: TypeAlias = Mapping[str, Mapping[str, float]]
"""By query and candidate, its score, more is better; a candidate without a relevance counts as not relevant."""


def ranking(relevance: Relevance, scores: Scores) -> dict[str, float]:
    """nDCG, mean average precision, mean reciprocal rank and recall, by ir-measures; the mean over queries.

    Queries without a relevant document are left out. All are NaN where no query has both a relevant candidate and
    another: any order is then as good.
    """
    measures = _measures()
    answerable = _answerable(relevance)
    mixed = any(
        any(judged.get(document, 0) <= 0 for document in scores.get(query, ())) for query, judged in answerable.items()
    )
    if not mixed:
        return dict.fromkeys(measures, float("nan"))
    import ir_measures

    values = ir_measures.calc_aggregate(
        list(measures.values()), answerable, {query: scores.get(query, {}) for query in answerable}
    )
    return {name: float(values[measure]) for name, measure in measures.items()}


def ndcg_by_query(relevance: Relevance, scores: Scores) -> dict[str, float]:
    """nDCG@20 of each query that has a relevant document."""
    measure = _measures()["ndcg_20"]
    answerable = _answerable(relevance)
    if not answerable:
        return {}
    import ir_measures

    values = ir_measures.iter_calc([measure], answerable, {query: scores.get(query, {}) for query in answerable})
    return {value.query_id: float(value.value) for value in values}


def _answerable(relevance: Relevance) -> Relevance:
    """The queries that have a relevant document."""
    return {query: judged for query, judged in relevance.items() if max(judged.values(), default=0) > 0}


def _measures() -> dict[str, Measure]:
    try:
        from ir_measures import AP, RR, R, nDCG
    except ImportError:
        raise MissingExtraError("evaluating a ranking needs ir-measures: pip install 'warmstart[rank]'") from None
    return {"ndcg_20": nDCG @ 20, "ndcg_10": nDCG @ 10, "map": AP, "mrr": RR, "recall_100": R @ 100}
