"""The baseline that takes seconds: TF-IDF and logistic regression, by scikit-learn.

An encoder that is not better than this is not worth its cost, whatever its score.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.table import Table
from warmstart.errors import RunError
from warmstart.evaluation.evaluate import measure
from warmstart.evaluation.predictions import PREDICTION_FILES
from warmstart.evaluation.records import metrics as metrics_record
from warmstart.evaluation.records.metrics import Metrics, finish_run, headline_of, read_metrics
from warmstart.evaluation.run_result import RunResult, read_scored, why_failed
from warmstart.models.linear_probe import sample_rows
from warmstart.models.tfidf import counted, vectorizer
from warmstart.pipeline.prepare import Parts, fit_task
from warmstart.recipe import Recipe
from warmstart.recipe.fields import TaskChoice
from warmstart.storage.files import write_json
from warmstart.storage.json_files import read_object
from warmstart.tasks.base import Answer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.base import ClassifierMixin

    from warmstart.tasks.classify import Classify

NAME = "tfidf"
MAX_ROWS = 50_000
"""Training rows beyond which a sample is used."""
C = 10.0
"""Inverse strength of the regression's penalty: weaker than scikit-learn's default, which is strong for TF-IDF."""


def fit_tfidf(recipe: Recipe, parts: Parts, folder: Path) -> None:
    """Train on the training rows of `classify`, predict the others, and write metrics and predictions into a folder.

    Features are words and pairs of adjacent words, in scripts without spaces one to three characters; the two texts of
    a pair are counted as one.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    task = cast("Classify", fit_task(recipe, parts))
    train, started = parts.tables["train"], time.monotonic()
    if len(train) > MAX_ROWS:
        train = train.select(sample_rows(list(train.column("label")), len(train), MAX_ROWS, recipe.seed))
    texts = _texts(train)
    counts = vectorizer(texts)
    regression = LogisticRegression(C=C, max_iter=1000)
    model = OneVsRestClassifier(regression) if task.multi_label else regression
    model.fit(counts.fit_transform(texts), _targets(task, list(train.column("label"))))
    metrics: Metrics = {}
    folder.mkdir(parents=True, exist_ok=True)
    for part in (part for part in ("dev", "test") if part in parts.tables):
        rows = parts.tables[part]
        answers = _answers(task, model, counts.transform(_texts(rows)))
        columns = {"label": list(rows.column("label"))}
        metrics[part] = measure(task, rows, columns, answers, folder / PREDICTION_FILES[part])
    about = {"seconds": round(time.monotonic() - started, 3), "rows": len(train), "counted": counted(texts), "C": C}
    write_json(folder / f"{NAME}.json", {**about, "sampled_from": len(parts.tables["train"])})
    finish_run(metrics, folder)


def read_tfidf(folder: Path, seed: int, task: TaskChoice) -> RunResult:
    """The result of a folder that `fit_tfidf` wrote, as if it were trained with a seed: it is the same with any."""
    metrics, about = read_metrics(folder / metrics_record.FILE), read_object(folder / f"{NAME}.json", RunError)
    headline = headline_of(metrics)
    if headline is None:
        raise RunError(f"{folder}: nothing was measured; expected dev or test rows")
    failed = why_failed(task, headline, read_scored(task, folder / PREDICTION_FILES[headline.part]))
    return RunResult(
        NAME, seed, folder, headline.part, metrics, headline.name, headline.value, 0, about["seconds"], failed, task
    )


def _texts(rows: Table) -> list[str]:
    texts = list(rows.column("text"))
    if "pair" not in rows.rows.column_names:
        return texts
    return [f"{text} {pair}" for text, pair in zip(texts, rows.column("pair"), strict=True)]


def _targets(task: Classify, answers: Sequence[Any]) -> list[int] | NDArray[np.int64]:
    """Ids of labels, or a matrix of 0 and 1 for several labels a row."""
    if not task.multi_label:
        return [task.labels.ids[answer] for answer in answers]
    matrix = np.zeros((len(answers), len(task.labels)), dtype=int)
    for row, answer in enumerate(answers):
        matrix[row, [task.labels.ids[name] for name in answer]] = 1
    return matrix


def _answers(task: Classify, model: ClassifierMixin, vectors: csr_matrix) -> list[Answer]:
    """Answers in the task's own form, by way of logits; a label that the sample lacks has probability 0."""
    probabilities = model.predict_proba(vectors)
    every = np.zeros((len(probabilities), len(task.labels)))
    if task.multi_label:
        every[:] = probabilities[:, -len(task.labels) :]
    else:
        every[:, model.classes_] = probabilities
    safe = np.clip(every, 1e-12, 1 - 1e-12)
    logits = torch.from_numpy(np.log(safe / (1 - safe)) if task.multi_label else np.log(safe))
    return task.decode({"logits": logits}, ())
