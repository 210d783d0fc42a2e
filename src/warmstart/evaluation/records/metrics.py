"""`metrics.json`: the numbers measured on each part of a run's data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from warmstart.errors import RunError
from warmstart.evaluation.records.files import LARGEST, Number, parse_record
from warmstart.storage.damages import list_files
from warmstart.storage.files import atomic_file, write_json
from warmstart.storage.json_files import read_object

FILE = "metrics.json"
PARTS = ("test", "dev")
"""The parts that are measured, the one that counts first."""

Measurements: TypeAlias = dict[str, Number | None]
"""The metrics of one part, the task's headline first, and `rows`, their number; None where a metric is undefined."""
Metrics: TypeAlias = dict[str, Measurements]
"""Measurements by part: `test`, `dev`."""


@dataclass(frozen=True)
class Headline:
    """The one number that a run is judged by."""

    part: str
    """What it was measured on: `test`, or `dev` where there are no test rows."""
    name: str
    """The task's first metric."""
    value: float
    """NaN where it is undefined."""


def headline_of(metrics: Mapping[str, Mapping[str, float | None]]) -> Headline | None:
    """The headline of a run; None where nothing was measured."""
    part = next((part for part in PARTS if part in metrics), None)
    if part is None:
        return None
    name, value = next(iter(metrics[part].items()))
    return Headline(part, name, math.nan if value is None else float(value))


def read_metrics(path: Path) -> Metrics:
    """Read `metrics.json`; a missing file is a `FileNotFoundError`."""
    return parse_record(Metrics, read_object(path, RunError, LARGEST), path)


def finish_run(metrics: Mapping[str, object], folder: Path) -> None:
    """Write `metrics.json`, which marks a run as finished, and just before it the manifest of the run's own files.

    Args:
        metrics: The measurements of each part, or those of each part of several tasks.
    """
    with atomic_file(folder / FILE) as staging:
        write_json(staging, metrics)
        list_files(folder, staging, FILE)
