"""One run in numbers: what it scored, what it cost, and whether it learned anything at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart import tasks
from warmstart.errors import Location, RunError
from warmstart.evaluation.predictions import (
    PREDICTION_FILES,
    Predictions,
    read_locations,
    read_predictions,
)
from warmstart.evaluation.records.metrics import Headline, Metrics, headline_of
from warmstart.evaluation.run import RunFolder
from warmstart.recipe.fields import TaskChoice
from warmstart.storage.json_files import read_text

FAILURE = "failure.txt"
"""The file of a run whose training went wrong, with the error."""


@dataclass(frozen=True)
class RunResult:
    """One run of an experiment, read from its folder."""

    variant: str
    seed: int
    folder: Path
    part: str
    """What `value` was measured on: `test`, or `dev` where there are no test rows."""
    metrics: Metrics
    """All that was measured, by part."""
    headline: str
    """The metric that counts: the task's first."""
    value: float
    """The headline; NaN where it is undefined or nothing was measured."""
    steps: int
    seconds: float
    """Training time."""
    failed: str
    """Why the run counts as failed, or nothing: it learned no more than to give one answer, or did not finish."""
    task: TaskChoice = field(default_factory=TaskChoice)
    """The task, by which rows are scored."""

    @cached_property
    def locations(self) -> list[Location]:
        """File and line of each evaluated row."""
        return read_locations(self.folder / PREDICTION_FILES[self.part])

    @cached_property
    def row_names(self) -> list[Location]:
        """The same without folders, as a file may be read from anywhere."""
        return [location.short for location in self.locations]

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """How good each answer is, more is better, in the order of `locations`.

        As the task scores a row: 1 or 0 for one label, the F1 of the row's labels for several, minus the absolute error
        for a number; NaN where it has no score of its own, as all rows of a query but the first.
        """
        path = self.folder / PREDICTION_FILES[self.part]
        return row_scores(self.task, read_scored(self.task, path), path)


def read_result(folder: Path, variant: str, seed: int) -> RunResult:
    """The result of a finished run, or of one whose training went wrong."""
    if (folder / FAILURE).is_file():
        why = read_text(folder / FAILURE, RunError).strip()
        return RunResult(variant, seed, folder, "test", {}, "", math.nan, 0, 0.0, why)
    run = RunFolder(folder)
    headline = headline_of(run.metrics)
    if headline is None:
        raise RunError(f"{folder}: nothing was measured; give the recipe test rows, by data.test or data.split.test")
    task = run.recipe.task
    failed = why_failed(task, headline, read_scored(task, folder / PREDICTION_FILES[headline.part]))
    training = run.training
    return RunResult(
        variant,
        seed,
        folder,
        headline.part,
        run.metrics,
        headline.name,
        headline.value,
        training.steps,
        training.seconds,
        failed,
        task,
    )


def why_failed(task: TaskChoice, headline: Headline, predictions: Predictions) -> str:
    """Why a run of a task counts as failed, or nothing."""
    task_class, options = tasks.with_options(task.name, task.options)
    return task_class.why_failed(options, headline.name, headline.value, predictions.truth, predictions.answers)


def read_scored(task: TaskChoice, path: Path) -> Predictions:
    """The predictions of a run, with the fields that its task scores rows by."""
    return read_predictions(path, tasks.find_or_base(task.name).answer_fields or None)


def row_scores(task: TaskChoice, predictions: Predictions, path: Path) -> NDArray[np.float64]:
    """How good each answer is, as `RunResult.scores` has it.

    Args:
        path: The file the predictions are from, for the error.
    """
    if predictions.scores is not None:
        return np.asarray(predictions.scores, dtype=float)
    if predictions.truth is None:
        raise RunError(f"{path}: found no true answers and no scores of rows; expected answer or quality")
    task_class, options = tasks.with_options(task.name, task.options)
    scores = task_class.row_scores(options, {"label": predictions.truth}, predictions.answers)
    return np.asarray(scores, dtype=float)
