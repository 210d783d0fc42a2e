"""The baseline of seconds: counted words and a straight line (TF-IDF and logistic regression, by scikit-learn).

An encoder that is not better than this has not paid for itself, whatever its number.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.data.table import Table
from warmstart.errors import RunError
from warmstart.evaluation.evaluate import measure
from warmstart.evaluation.run import PREDICTIONS
from warmstart.evaluation.run_result import Row, read_predictions, why_failed
from warmstart.pipeline.prepare import Parts, fit_task
from warmstart.recipe import Recipe
from warmstart.storage.artifacts import write_json
from warmstart.storage.json_files import read_object

NAME = "tfidf"
MOST_ROWS = 50_000
"""Training rows beyond which a sample is learned from."""
C = 10.0
"""Inverse strength of the regression's penalty: weaker than scikit-learn's default, which is strong for TF-IDF."""
WORDS: dict[str, Any] = {"token_pattern": r"\w+|[^\w\s]", "ngram_range": (1, 2)}
CHARACTERS: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)}
SPACES = 0.02
"""Share of spaces below which a text is taken to be of a script without them, whose words are not counted."""


def fit_tfidf(recipe: Recipe, parts: Parts, folder: Path) -> None:
    """Learn from the training rows of `classify`, answer the others, and write metrics and predictions into a folder.

    One word and two in a row are counted, in scripts without spaces one to three characters; the two texts of a pair
    are counted as one.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    task: Any = fit_task(recipe, parts)
    train, started = parts.tables["train"], time.monotonic()
    if len(train) > MOST_ROWS:
        train = train.select(_sample(list(train.column("label")), recipe.seed))
    texts = _texts(train)
    counted = WORDS if _has_spaces(texts) else CHARACTERS
    vectors = TfidfVectorizer(sublinear_tf=True, **counted)
    straight = LogisticRegression(C=C, max_iter=1000)
    model = OneVsRestClassifier(straight) if task.many else straight
    model.fit(vectors.fit_transform(texts), _targets(task, list(train.column("label"))))
    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    for part in (part for part in ("dev", "test") if part in parts.tables):
        rows = parts.tables[part]
        given = _answers(task, model, vectors.transform(_texts(rows)))
        found[part] = measure(task, rows, {"label": list(rows.column("label"))}, given, folder / PREDICTIONS[part])
    about = {"seconds": round(time.monotonic() - started, 3), "rows": len(train), "counted": counted, "C": C}
    write_json(folder / f"{NAME}.json", {**about, "sampled_from": len(parts.tables["train"])})
    write_json(folder / "metrics.json", found)


def read_tfidf(folder: Path, seed: int) -> Row:
    """The row of a folder that `fit_tfidf` wrote, as if it were trained with a seed: it is the same with any."""
    found, about = (read_object(folder / name, RunError) for name in ("metrics.json", f"{NAME}.json"))
    part = next(part for part in PREDICTIONS if part in found)
    headline, value = next(iter(found[part].items()))
    _, answers, given = read_predictions(folder / PREDICTIONS[part])
    failed = why_failed(float(value), answers, given)
    return Row(NAME, seed, folder, part, found, headline, float(value), 0, about["seconds"], failed)


def _sample(answers: Sequence[Any], seed: int) -> list[int]:
    """Rows drawn by chance, and the first one of every answer, so that none is unheard of."""
    drawn = np.random.default_rng(seed).choice(len(answers), MOST_ROWS, replace=False)
    first: dict[str, int] = {}
    for index, answer in enumerate(answers):
        first.setdefault(str(answer), index)
    return sorted({*drawn.tolist(), *first.values()})


def _texts(rows: Table) -> list[str]:
    texts = list(rows.column("text"))
    if "pair" not in rows.rows.column_names:
        return texts
    return [f"{text} {pair}" for text, pair in zip(texts, rows.column("pair"), strict=True)]


def _has_spaces(texts: Sequence[str]) -> bool:
    """Whether words stand apart in most of the first texts."""
    some = "".join(texts[:1000])
    return sum(map(str.isspace, some)) >= SPACES * len(some)


def _targets(task: Any, answers: Sequence[Any]) -> Any:
    """Ids of labels, or a matrix of 0 and 1 for many."""
    if not task.many:
        return [task.labels.ids[answer] for answer in answers]
    matrix = np.zeros((len(answers), len(task.labels)), dtype=int)
    for row, answer in enumerate(answers):
        matrix[row, [task.labels.ids[name] for name in answer]] = 1
    return matrix


def _answers(task: Any, model: Any, vectors: Any) -> list[dict[str, Any]]:
    """Answers in the task's own form, by way of logits; a label that a sample lacks has no chance."""
    chances = model.predict_proba(vectors)
    every = np.zeros((len(chances), len(task.labels)))
    if task.many:
        every[:] = chances[:, -len(task.labels) :]
    else:
        every[:, model.classes_] = chances
    safe = np.clip(every, 1e-12, 1 - 1e-12)
    found: list[dict[str, Any]] = task.decode(np.log(safe / (1 - safe)) if task.many else np.log(safe))
    return found
