"""Diagnosing: all that can be said of where a run errs, written into its folder."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warmstart.diagnosis.confidence import doubts
from warmstart.diagnosis.confusion import confusion, frequent_confusions
from warmstart.diagnosis.evaluated_rows import Answered, column_at, read_answered, with_columns
from warmstart.diagnosis.label_errors import Looking, find_label_errors
from warmstart.diagnosis.mistakes import mistakes
from warmstart.diagnosis.slices import LEAST, groups_of, slices
from warmstart.diagnosis.thresholds import check_share
from warmstart.errors import DataError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.prepare import Parts, Rows, read_parts
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import recover, write_json
from warmstart.storage.cache import cache_folder
from warmstart.storage.json_files import MEGABYTE, read_object
from warmstart.tasks.base import Task

FOUND = "diagnosis.json"
MISTAKES = 20


def diagnose(
    run: RunFolder,
    *,
    by: Sequence[str] = (),
    precisions: Sequence[float] = (),
    abstain: Sequence[float] = (),
    calibrate: bool = False,
    label_errors: Looking | None = None,
    most: int = MISTAKES,
    rows: Rows | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Say where a run errs, and keep it as `diagnosis.json` in its folder.

    Args:
        by: Further columns of the measured file by which rows are grouped.
        precisions: Shares of right answers for which the least confidence is wanted.
        abstain: Shares of answers to hold back for which it is wanted.
        calibrate: Keep the temperature in the model's folder, so that its probabilities are calibrated from now on.
        label_errors: How to look for wrong labels among the training rows; None for not at all.
        most: How many mistakes and label errors are listed.
        rows: The rows, where they were handed over in Python.
    """
    for name, values in {"--precision": precisions, "--abstain": abstain}.items():
        for value in values:
            check_share(name, value)
    recover(run.model)
    task = Predictor.load(run.folder).task
    schema = task.schema(task.options)
    found = read_answered(run, task, "test") or read_answered(run, task, "dev")
    if found is None:
        raise RunError(
            f"{run.folder}: nothing was measured; give the recipe test rows, by data.test or data.split.test"
        )
    with tempfile.TemporaryDirectory(prefix="warmstart-") as work:
        parts, notes = _parts(run, task, Path(work), rows, progress)
        if parts is not None:
            found, told = _with_columns(found, parts, schema)
            notes += told
        grouped = {name: column_at(run, schema, name, found, cache_folder(), progress) for name in by}
        said: dict[str, Any] = {"part": found.part, "task": task.name, "rows": len(found), "notes": notes}
        said |= _errors(found, task, grouped, most)
        said |= doubts(run, found, task, precisions, abstain, calibrate)
        if task.likeliest and "calibration" not in said:
            notes.append("too few rows to say how far probabilities can be believed")
        if label_errors is not None:
            if parts is None:
                raise RunError(f"{run.folder}: the training rows cannot be read again: {'; '.join(notes)}")
            told_errors = find_label_errors(run, task, parts.tables, label_errors, most, progress)
            said["label_errors"] = told_errors
        elif (before := _before(run)) is not None:
            said["label_errors"] = before
    write_json(run.folder / FOUND, said)
    return said


def _parts(run: RunFolder, task: Task[Any], work: Path, rows: Rows | None, progress: Progress) -> tuple[Any, list[str]]:
    """The rows of the run, if they can be read again, else why not."""
    if run.recipe.data.train == MEMORY and rows is None:
        return None, ["the rows were handed over in Python, so their texts are not at hand"]
    try:
        place = cache_folder() if rows is None else work
        return read_parts(run.recipe, task.schema(task.options), place, progress, rows), []
    except DataError as error:
        return None, [f"the texts are not at hand: {error}"]


def _with_columns(found: Answered, parts: Parts, schema: Any) -> tuple[Answered, list[str]]:
    try:
        return with_columns(found, parts.tables, schema), []
    except RunError as error:
        return found, [f"the texts are not at hand: {error}"]


def _errors(found: Answered, task: Task[Any], by: dict[str, list[str | None]], most: int) -> dict[str, Any]:
    """What is wrong, where, and what it is taken for."""
    schema = task.schema(task.options)
    said: dict[str, Any] = {}
    tables = task.diagnose(found.columns, found.given) if found.columns else []
    if found.answers is not None and (pairs := task.confused(found.answers, found.given)):
        said["confusion"] = confusion(pairs, getattr(getattr(task, "labels", None), "names", ()))
        if (frequent := frequent_confusions(pairs)) is not None:
            tables = [frequent, *tables]
    if task.apart:
        listed, small = slices(found.scores, groups_of(found, schema, by))
        said["slices"] = [one.as_json() for one in listed]
        if small:
            said["slices_too_small"] = {"slices": small, "least": LEAST}
        said["mistakes"] = mistakes(found, schema, most)
    return {**said, "tables": tables} if tables else said


def _before(run: RunFolder) -> Any:
    """The label errors of an earlier diagnosis: the training rows are the same."""
    try:
        return read_object(run.folder / FOUND, RunError, 64 * MEGABYTE).get("label_errors")
    except (OSError, RunError):
        return None
