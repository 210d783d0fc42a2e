"""Numbers that say how good predictions are: plain functions, over scikit-learn, SciPy and ir-measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


Relevance = Mapping[str, Mapping[str, int]]
"""By query and document, how relevant it is; above 0 it is."""
Scores = Mapping[str, Mapping[str, float]]
"""By query and candidate, its score, more is better; a candidate without a relevance counts as not relevant."""


def ranking(relevance: Relevance, scores: Scores) -> dict[str, float]:
    """nDCG, mean average precision, mean reciprocal rank and recall, by ir-measures; the mean over queries.

    Queries without a relevant document are left out. All are NaN where no query has both a relevant candidate and
    another: any order is then as good.
    """
    measures = _measures()
    asked = _asked(relevance)
    mixed = any(
        any(judged.get(document, 0) <= 0 for document in scores.get(query, ())) for query, judged in asked.items()
    )
    if not mixed:
        return dict.fromkeys(measures, float("nan"))
    import ir_measures

    found = ir_measures.calc_aggregate(
        list(measures.values()), asked, {query: scores.get(query, {}) for query in asked}
    )
    return {name: float(found[measure]) for name, measure in measures.items()}


def ndcg_by_query(relevance: Relevance, scores: Scores) -> dict[str, float]:
    """nDCG@20 of each query that has a relevant document."""
    measure = _measures()["ndcg_20"]
    asked = _asked(relevance)
    if not asked:
        return {}
    import ir_measures

    found = ir_measures.iter_calc([measure], asked, {query: scores.get(query, {}) for query in asked})
    return {one.query_id: float(one.value) for one in found}


def _asked(relevance: Relevance) -> Relevance:
    """The queries for which there is something to find."""
    return {query: judged for query, judged in relevance.items() if max(judged.values(), default=0) > 0}


def _measures() -> dict[str, Any]:
    try:
        from ir_measures import AP, RR, R, nDCG
    except ImportError:
        raise MissingExtra("measuring a ranking needs ir-measures: pip install 'warmstart[rank]'") from None
    return {"ndcg_20": nDCG @ 20, "ndcg_10": nDCG @ 10, "map": AP, "mrr": RR, "recall_100": R @ 100}
