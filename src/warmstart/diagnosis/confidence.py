"""Doubt: how far the probabilities of a run can be believed, and from where down to give no answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.diagnosis import calibration, thresholds
from warmstart.diagnosis.evaluated_rows import Answered, read_answered
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.storage.artifacts import republish, write_json
from warmstart.storage.json_files import read_object
from warmstart.tasks.base import Task
from warmstart.tasks.shared.task_config import FILE, saved_temperature

PRECISIONS = (0.9, 0.95, 0.99)
"""Precisions whose thresholds are told where none is asked for."""
FEW = 20
"""Rows below which a part says nothing about probabilities."""

Scored = tuple[NDArray[np.float64], NDArray[np.int64]]
"""The logits of rows, and the place of each one's true answer."""
Sure = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""The confidence of answers, and whether each is right."""


def doubts(
    run: RunFolder,
    found: Answered,
    task: Task[Any],
    precisions: Sequence[float],
    abstain: Sequence[float],
    store: bool,
) -> dict[str, Any]:
    """How far probabilities can be believed, and from where down to give no answer."""
    asked = store or precisions or abstain
    if not task.likeliest:
        if asked:
            raise RecipeError(
                f"--calibrate, --precision, --abstain: {task.name} gives no answer with one probability here; "
                "they can be said for classify (one label), relate and choose"
            )
        return {}
    dev = read_answered(run, task, "dev") if found.part == "test" else None
    measure = _arrays(found)
    if dev is not None:
        fit, on = _arrays(dev), "dev"
    else:
        first, second = calibration.halves(len(found))
        fit, measure = _taken(measure, first), _taken(measure, second)
        on = f"half of {found.part}"
    if min(len(fit[1]), len(measure[1])) < FEW:
        if asked:
            raise RunError(
                f"{run.folder}: {len(fit[1])} rows to choose on and {len(measure[1])} to measure are too few"
            )
        return {}
    said = calibration.calibrate(fit, measure, on)
    if store:
        store_temperature(run.model, said["temperature"])
    said["stored"] = used = saved_temperature(run.model)
    told = _thresholds(_sure(fit, used), _sure(measure, used), precisions, abstain, on)
    return {"calibration": said, "thresholds": told}


def _thresholds(fit: Sure, measure: Sure, precisions: Sequence[float], abstain: Sequence[float], on: str) -> list[Any]:
    """Of each wish the least confidence as the predictor tells it today, and what it brings on other rows."""
    wanted = precisions or (() if abstain else PRECISIONS)
    said: list[dict[str, Any]] = []
    for value in wanted:
        least = thresholds.for_precision(*fit, value)
        said.append({"precision": value, **thresholds.measured(*measure, least), "chosen_on": on})
    for value in abstain:
        least = thresholds.for_abstaining(fit[0], value)
        said.append({"abstain": value, **thresholds.measured(*measure, least), "chosen_on": on})
    return said


def store_temperature(folder: Path, temperature: float) -> None:
    """Keep a temperature beside a model, by which its probabilities are calibrated from now on; 1 undoes it."""
    about = read_object(folder / FILE, RunError)
    with republish(folder) as staging:
        write_json(staging / FILE, {**about, "temperature": temperature})


def _arrays(found: Answered) -> Scored:
    return calibration.logits_of(found.given), calibration.targets_of(found.answers or [], found.given)


def _sure(some: Scored, temperature: float) -> Sure:
    """The confidence of each answer, and whether it is right."""
    logits, targets = some
    return calibration.chances(logits, temperature).max(axis=1), np.asarray(logits.argmax(axis=1) == targets)


def _taken(some: Scored, rows: NDArray[np.int64]) -> Scored:
    return some[0][rows], some[1][rows]
