"""Confidence: whether the probabilities of a run can be trusted, and below which one to give no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.diagnosis import calibration, thresholds
from warmstart.diagnosis.evaluated_rows import EvaluatedRows, read_evaluated
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.records.diagnosis import Calibration, Threshold
from warmstart.evaluation.run import RunFolder
from warmstart.storage.artifacts import republish
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.saved_task import SavedTask

PRECISIONS = (0.9, 0.95, 0.99)
"""Target precisions whose thresholds are given by default."""
MIN_ROWS = 20
"""Rows below which a part is too small to judge probabilities."""

Scored = tuple[NDArray[np.float64], NDArray[np.int64]]
"""The logits of rows, and the index of each one's true answer."""
Confident = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""The confidence of answers, and whether each is right."""


@dataclass(frozen=True)
class ConfidenceOptions:
    """What to find out about confidence.

    Args:
        target_precisions: Shares of right answers, for each of which to choose a threshold.
        abstain: Shares of rows to leave unanswered, for each of which to choose a threshold.
        calibrate: Store the temperature in the model's folder, so that its probabilities are calibrated from now on.
    """

    target_precisions: Sequence[float] = ()
    abstain: Sequence[float] = ()
    calibrate: bool = False

    def __post_init__(self) -> None:
        shares = {"--target-precision": self.target_precisions, "--abstain": self.abstain}
        for name, values in shares.items():
            for value in values:
                thresholds.check_share(name, value)

    def __bool__(self) -> bool:
        return bool(self.calibrate or self.target_precisions or self.abstain)


def judge_confidence(
    run: RunFolder, rows: EvaluatedRows, task: AnyTask, options: ConfidenceOptions
) -> tuple[Calibration, list[Threshold]] | None:
    """How reliable probabilities are, and below which to give no answer; None where that cannot be judged.

    Raises:
        RecipeError, RunError: It cannot be judged, but the options ask for it.
    """
    if not task.single_choice:
        if options:
            raise RecipeError(
                f"--calibrate, --target-precision, --abstain: {task.name} gives no answer with one probability here; "
                "they are for tasks that choose one of several answers, as classify (one label), relate and choose"
            )
        return None
    dev = read_evaluated(run, task, "dev") if rows.part == "test" else None
    measure = _arrays(rows)
    if dev is not None:
        fit, on = _arrays(dev), "dev"
    else:
        first, second = calibration.halves(len(rows))
        fit, measure = _select(measure, first), _select(measure, second)
        on = f"half of {rows.part}"
    if min(len(fit[1]), len(measure[1])) < MIN_ROWS:
        if options:
            raise RunError(
                f"{run.folder}: {len(fit[1])} rows to choose on and {len(measure[1])} to measure are too few; "
                f"expected {MIN_ROWS} of each"
            )
        return None
    calibrated = calibration.calibrate(fit, measure, on)
    if options.calibrate:
        store_temperature(run.model, calibrated.temperature)
    used = SavedTask.read(run.model).temperature
    chosen = _thresholds(_confidence(fit, used), _confidence(measure, used), options, on)
    return replace(calibrated, stored=used), chosen


def _thresholds(fit: Confident, measure: Confident, options: ConfidenceOptions, on: str) -> list[Threshold]:
    """For each target the least confidence as the predictor gives it today, and its effect on other rows."""
    precisions = options.target_precisions or (() if options.abstain else PRECISIONS)
    chosen = []
    for value in precisions:
        least = thresholds.for_precision(*fit, value)
        chosen.append(replace(thresholds.measure(*measure, least, on), precision=value))
    for value in options.abstain:
        least = thresholds.for_abstaining(fit[0], value)
        chosen.append(replace(thresholds.measure(*measure, least, on), abstain=value))
    return chosen


def store_temperature(folder: Path, temperature: float) -> None:
    """Store a temperature with a model, which calibrates its probabilities from now on; 1 undoes it."""
    saved = SavedTask.read(folder).with_temperature(temperature)
    with republish(folder) as staging:
        saved.write(staging)


def _arrays(rows: EvaluatedRows) -> Scored:
    return calibration.logits_of(rows.answers), calibration.targets_of(rows.truth or [], rows.answers)


def _confidence(scored: Scored, temperature: float) -> Confident:
    """The confidence of each answer, and whether it is right."""
    logits, targets = scored
    return calibration.probabilities(logits, temperature).max(axis=1), np.asarray(logits.argmax(axis=1) == targets)


def _select(scored: Scored, rows: NDArray[np.int64]) -> Scored:
    return scored[0][rows], scored[1][rows]
