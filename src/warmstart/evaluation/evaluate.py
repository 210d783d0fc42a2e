"""Evaluating: a finished model's answers to labelled rows, and the metrics that sum them up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from warmstart.data.schema import Row
from warmstart.data.table import Table
from warmstart.evaluation.predictions import Columns, Predictions, write_predictions
from warmstart.evaluation.records.metrics import Measurements
from warmstart.inference.predictor import Predictor
from warmstart.inference.search import rank_rows, searches_documents
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import Answer, AnyTask
from warmstart.tasks.shared.protocols import EncodesQueries


@dataclass(frozen=True)
class Evaluation:
    """What a model's answers to labelled rows are worth."""

    metrics: Measurements
    failed: str
    """Why the answers are no better than one for all rows, with its share of them; nothing where they are."""


def evaluate(
    predictor: Predictor, rows: Table, predictions: Path | None = None, progress: Progress = silent
) -> Measurements:
    """Predict every row and measure; as `evaluate_rows`, whose metrics this returns."""
    return evaluate_rows(predictor, rows, predictions, progress).metrics


def evaluate_rows(
    predictor: Predictor, rows: Table, predictions: Path | None = None, progress: Progress = silent
) -> Evaluation:
    """Predict every row and measure: the metrics of the task, and `rows`.

    Where texts are longer than the window, `rows_cut` is how many, and `share_cut` the share of all tokens that is not
    seen.

    Args:
        predictions: A Parquet file to write each row's location, true answer and predicted answer to.
    """
    task = predictor.task
    schema = task.schema(task.options)
    answer, fullest = schema.answer, schema.answer_in(rows.rows.column_names)
    if fullest:
        task.check_answers(rows.column(fullest.name), rows.location)
    before = replace(predictor.cut)
    columns, answers = predict_rows(predictor, rows, progress)
    metrics = measure(task, rows, columns, answers, predictions)
    cut = predictor.cut.since(before)
    metrics |= {"rows_cut": cut.rows_cut, "share_cut": cut.share} if cut.rows_cut else {}
    value = metrics.get(task.headline)
    truth = columns.get(answer.name) if answer else None
    measured = math.nan if value is None else float(value)
    return Evaluation(metrics, type(task).why_failed(task.options, task.headline, measured, truth, answers))


def measure(
    task: AnyTask,
    rows: Table,
    columns: Columns,
    answers: list[Answer],
    predictions: Path | None = None,
) -> Measurements:
    """The metrics of answers to every row, whatever model gave them, and `rows`.

    Args:
        columns: What the task's metrics need, as `predict_rows` gives it.
        predictions: A Parquet file to write the answers to.
    """
    metrics = task.compute_metrics(columns, answers)
    if predictions is not None:
        column = task.schema(task.options).answer
        truth = list(rows.column(column.name)) if column else None
        scores = task.row_scores(task.options, columns, answers) if task.stores_row_scores else None
        own = None if scores is None else list(scores)
        write_predictions(Predictions(list(rows.locations()), truth, own, answers), predictions)
    # JSON has no NaN: an undefined number is null there.
    return {**{name: None if math.isnan(value) else value for name, value in metrics.items()}, "rows": len(rows)}


def predict_rows(predictor: Predictor, rows: Table, progress: Progress = silent) -> tuple[Columns, list[Answer]]:
    """The columns that the task's metrics need, and the predictor's answer to every row."""
    answers: list[Answer] = []
    with progress.bar("testing", len(rows)) as bar:
        for answer in _search(predictor, rows) or predictor.stream(eval_rows(predictor.task, rows)):
            answers.append(answer)
            bar.advance()
    return metric_columns(predictor.task, rows), answers


def metric_columns(task: AnyTask, rows: Table) -> Columns:
    """The columns of rows that the task's metrics need."""
    return {name: list(rows.column(name)) for name in task.metric_columns if name in rows.rows.column_names}


def eval_rows(task: AnyTask, rows: Table) -> Iterator[Row]:
    """Rows as a model gets them when it is evaluated."""
    if not isinstance(task, EncodesQueries):
        return rows.dicts()
    return (task.eval_row(row, number) for number, row in enumerate(rows.dicts()))


def _search(predictor: Predictor, rows: Table) -> list[Answer] | None:
    """The answers of a search among all documents, where the task is measured so."""
    if not searches_documents(predictor.task, rows.documents is not None):
        return None
    names = [name for name in (*predictor.task.metric_columns, "negative") if name in rows.rows.column_names]
    documents = rows.documents
    collection = None if documents is None else {name: list(documents.column(name)) for name in ("id", "text")}
    return rank_rows(predictor, {name: list(rows.column(name)) for name in names}, collection)
