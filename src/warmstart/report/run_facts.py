"""The facts of a run that a report is made from, read once: its scores with intervals, evidence and diagnosis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from warmstart import tasks
from warmstart.evaluation.records.diagnosis import Diagnosis
from warmstart.evaluation.records.evidence import EvidenceRecord
from warmstart.evaluation.records.metrics import Measurements
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import RunResult, read_result
from warmstart.evaluation.statistics import MeanEstimate, over_rows, scored
from warmstart.evaluation.training_warnings import training_warnings
from warmstart.tasks.base import AnyTask

MANY = 10_000
"""Rows beyond which the interval is the normal one: the bootstrap would take minutes and give the same."""
TOLERANCE = 1e-6
"""How close the mean score of rows must be to the headline to stand for it."""


@dataclass(frozen=True)
class PartScores:
    """The metrics of one part."""

    part: str
    metrics: Measurements
    headline: str
    estimate: MeanEstimate | None
    """The interval of the headline, or of `estimated` where that is set."""
    estimated: str
    """What the estimate is of, where it is not of the headline."""

    @property
    def value(self) -> float | None:
        """The headline."""
        value = self.metrics.get(self.headline)
        return None if value is None else float(value)

    @property
    def rows(self) -> int:
        """How many rows were evaluated."""
        return int(self.metrics.get("rows") or 0)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The 95% interval of the headline; None where there is none."""
        if self.estimate is None or self.estimated:
            return None, None
        return self.estimate.low, self.estimate.high


@dataclass(frozen=True)
class RunFacts:
    """A finished run, as a report needs it."""

    run: RunFolder
    scores: list[PartScores]
    """Test first."""
    warnings: list[str]
    """What its training shows that its scores do not."""
    evidence: EvidenceRecord | None
    diagnosis: Diagnosis | None

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.run.folder.resolve().name

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.run.recipe.task.name

    @property
    def task_class(self) -> type[AnyTask]:
        """The class of the task, which describes its models."""
        return tasks.find_or_base(self.task)

    @property
    def model(self) -> str:
        """The encoder's name, without the folders of this machine."""
        model = self.run.recipe.model
        return Path(model).name if is_folder(model) else model or "an encoder from scratch"


def read_facts(folder: str | Path) -> RunFacts:
    """Read a finished run."""
    run = RunFolder(folder)
    parts = [part for part in ("test", "dev") if part in run.metrics]
    result = read_result(run.folder, run.folder.name, run.recipe.seed) if parts else None
    return RunFacts(
        run,
        [_scores(run, replace(result, part=part)) for part in parts] if result else [],
        training_warnings(run, result),
        run.evidence,
        run.diagnosis,
    )


def is_folder(model: str) -> bool:
    """Whether a recipe's model is a folder on this machine rather than a name on the Hub."""
    return Path(model).is_absolute() or model.startswith(".") or model.count("/") > 1


def _scores(run: RunFolder, result: RunResult) -> PartScores:
    metrics = run.metrics[result.part]
    headline = next(iter(metrics))
    value = metrics[headline]
    estimate = _estimate(scored(result.scores))
    same = value is not None and math.isclose(estimate.mean, float(value), abs_tol=TOLERANCE)
    accuracy = metrics.get("accuracy")
    if same:
        estimated = ""
    elif accuracy is not None and math.isclose(estimate.mean, float(accuracy), abs_tol=TOLERANCE):
        estimated = "accuracy"
    else:
        estimated = tasks.find_or_base(run.recipe.task.name).row_score_name
    return PartScores(result.part, metrics, headline, estimate if same or estimated else None, estimated)


def _estimate(scores: NDArray[np.float64]) -> MeanEstimate:
    mean = float(scores.mean()) if len(scores) else math.nan
    if len(scores) and mean in {0.0, 1.0} and np.ptp(scores) == 0:
        # Rows that are all right, or all wrong, are so in every bootstrap sample; the exact interval is not empty.
        exact = stats.binomtest(int(mean * len(scores)), len(scores)).proportion_ci()
        return MeanEstimate(mean, float(exact.low), float(exact.high), len(scores))
    if len(scores) <= MANY:
        return over_rows(scores)
    half = 1.96 * float(scores.std(ddof=1)) / math.sqrt(len(scores))
    return MeanEstimate(mean, mean - half, mean + half, len(scores))
