"""What the baselines of a training score on its test rows: beside the model's score, that of other rows misleads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warmstart.data.table import Table
from warmstart.evaluation.evaluate import measure, metric_columns, predict_rows
from warmstart.evaluation.records.linear_probe import OnTestRows
from warmstart.evaluation.statistics import over_rows
from warmstart.inference.predictor import Predictor
from warmstart.tasks.base import Answer, AnyTask

MOST = 500
"""Test rows that baselines answer, spread over all of them: enough to compare by, at little cost."""


def some_test_rows(test: Table) -> Table:
    """The test rows that baselines answer."""
    return test if len(test) <= MOST else test.select(np.linspace(0, len(test) - 1, MOST).astype(int))


def predictor_on_test(predictor: Predictor, test: Table) -> OnTestRows | None:
    """The score of a model on some test rows; None where it is undefined."""
    rows = some_test_rows(test)
    return score_on_test(predictor.task, rows, predict_rows(predictor, rows)[1], of_rows=len(test))


def score_on_test(task: AnyTask, rows: Table, answers: Sequence[Answer], of_rows: int) -> OnTestRows | None:
    """The headline of answers to test rows, with its interval over rows where it is their mean."""
    columns = metric_columns(task, rows)
    value = measure(task, rows, columns, list(answers))[task.headline]
    if value is None:
        return None
    spread = over_rows(list(task.row_scores(task.options, columns, list(answers))))
    # An F1 over all rows is not the mean of theirs, so its interval is not either.
    low, high = (spread.low, spread.high) if abs(spread.mean - value) < 1e-9 else (None, None)
    return OnTestRows(float(value), low, high, len(rows), of_rows)
