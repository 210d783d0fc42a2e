"""What a run's folder tells, read once: its scores with intervals, and evidence and diagnosis where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from warmstart.errors import RunError
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import Row, read_row
from warmstart.evaluation.statistics import Estimate, over_rows
from warmstart.storage.json_files import MEGABYTE, read_object

DIAGNOSIS = "diagnosis.json"
LARGEST = 64 * MEGABYTE
MANY = 10_000
"""Rows beyond which the interval is the normal one: resampling would take minutes and say the same."""
ALIKE = 1e-6
"""How close the mean of rows' scores must be to the headline to stand for it."""
OWN_SCORES = {
    "classify": "F1 of a row's labels, mean",
    "score": "minus the absolute error of a row, mean",
    "tag": "F1 of a row, mean",
    "masked": "accuracy in a row, mean",
}
"""What the mean of rows' scores is where it is not the headline; that of `rank`, whose rows share queries, is none."""


@dataclass(frozen=True)
class Measured:
    """What was measured on one part."""

    part: str
    metrics: dict[str, Any]
    headline: str
    estimate: Estimate | None
    """The interval of the headline, or of `own` where that is set."""
    own: str
    """What the estimate is of, where it is not of the headline."""

    @property
    def value(self) -> float | None:
        found = self.metrics.get(self.headline)
        return None if found is None else float(found)

    @property
    def rows(self) -> int:
        return int(self.metrics.get("rows", 0))


@dataclass(frozen=True)
class Facts:
    """A finished run as a report sees it."""

    run: RunFolder
    measured: list[Measured]
    """Test first."""
    failed: str
    """Why the run counts as failed, or nothing."""
    evidence: dict[str, Any]
    diagnosis: dict[str, Any]

    @property
    def name(self) -> str:
        return self.run.folder.resolve().name

    @property
    def task(self) -> str:
        return str(self.run.recipe.task.name)

    @property
    def model(self) -> str:
        """The encoder's name, without the folders of this machine."""
        said = str(self.run.recipe.model)
        return Path(said).name if is_folder(said) else said or "an encoder from scratch"


def read_facts(folder: str | Path) -> Facts:
    """Read a finished run."""
    run = RunFolder(folder)
    parts = [part for part in ("test", "dev") if part in run.metrics]
    row = read_row(run.folder, run.folder.name, run.recipe.seed) if parts else None
    return Facts(
        run,
        [_measured(run, replace(row, part=part)) for part in parts] if row else [],
        row.failed if row else "",
        run.evidence,
        _beside(run.folder / DIAGNOSIS),
    )


def is_folder(model: str) -> bool:
    """Whether a recipe's model is a folder on this machine rather than a name on the Hub."""
    return Path(model).is_absolute() or model.startswith(".") or model.count("/") > 1


def _measured(run: RunFolder, row: Row) -> Measured:
    metrics = run.metrics[row.part]
    headline = next(iter(metrics))
    value = metrics[headline]
    estimate = _estimate(np.asarray(row.scores, dtype=float))
    alike = value is not None and math.isclose(estimate.mean, float(value), abs_tol=ALIKE)
    own = "" if alike else OWN_SCORES.get(run.recipe.task.name, "")
    return Measured(row.part, metrics, headline, estimate if alike or own else None, own)


def _estimate(scores: Any) -> Estimate:
    mean = float(scores.mean()) if len(scores) else math.nan
    if len(scores) and mean in {0.0, 1.0} and np.ptp(scores) == 0:
        # Rows that are all right, or all wrong, are so in every resample; the exact interval knows better.
        exact = stats.binomtest(int(mean * len(scores)), len(scores)).proportion_ci()
        return Estimate(mean, float(exact.low), float(exact.high), len(scores))
    if len(scores) <= MANY:
        return over_rows(scores)
    half = 1.96 * float(scores.std(ddof=1)) / math.sqrt(len(scores))
    return Estimate(mean, mean - half, mean + half, len(scores))


def _beside(path: Path) -> dict[str, Any]:
    """A file that another verb may have written; empty where it has not."""
    try:
        return read_object(path, RunError, LARGEST)
    except FileNotFoundError:
        return {}
