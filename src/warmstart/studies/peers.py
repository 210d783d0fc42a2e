"""A peer: something else that a user could use, run as a script of its own on the rows of a measurement."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.evaluate import measure, metric_columns
from warmstart.evaluation.predictions import PREDICTION_FILES
from warmstart.evaluation.records.metrics import headline_of
from warmstart.evaluation.run_result import RunResult, read_scored, why_failed
from warmstart.options import Values
from warmstart.pipeline.prepare import fit_task, read_rows
from warmstart.recipe import Recipe
from warmstart.recipe.study import StudyPeer
from warmstart.runtime.progress import silent
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import write_json
from warmstart.storage.folders import make_folder
from warmstart.storage.json_files import read_object

TAIL = 300
"""Characters of a peer's last words that an error shows."""


def run_peer(peer: StudyPeer, script: Path, job: Values, folder: Path) -> Values:
    """Run a peer's script on a job; gives what it wrote.

    Args:
        job: What the script is told: the files of rows, the task, the encoder and the seed.
        folder: Where the job and the answers are written.
    """
    make_folder(folder)
    out = folder / "answers.json"
    write_json(folder / "job.json", {**job, "out": str(out.absolute())})
    done = subprocess.run(
        [_python(peer), str(script), str(folder / "job.json")], capture_output=True, text=True, check=False
    )
    if done.returncode or not out.is_file():
        last = " ".join((done.stderr or done.stdout).split())[-TAIL:]
        raise RunError(f"{script}: ended with exit code {done.returncode}: {last}")
    return read_object(out, RunError)


def peer_result(name: str, recipe: Recipe, answers: Sequence[object], seconds: float, folder: Path) -> RunResult:
    """The result of a peer's answers to the test rows of a recipe, measured as a model of ours is."""
    parts = read_rows(recipe, cache_folder(), silent)
    task, rows = fit_task(recipe, parts), parts.tables["test"]
    if len(answers) != len(rows):
        raise RunError(f"{name}: found {len(answers)} answers, expected {len(rows)}, one for each test row")
    field = task.answer_fields[0]
    path = folder / PREDICTION_FILES["test"]
    metrics = {"test": measure(task, rows, metric_columns(task, rows), [{field: one} for one in answers], path)}
    headline = headline_of(metrics)
    assert headline is not None
    failed = why_failed(recipe.task, headline, read_scored(recipe.task, path))
    value = headline.value if math.isfinite(headline.value) else math.nan
    return RunResult(name, recipe.seed, folder, "test", metrics, headline.name, value, 0, seconds, failed, recipe.task)


def _python(peer: StudyPeer) -> str:
    """The Python that a peer is run with."""
    if peer.python is None:
        return sys.executable
    if not peer.python.startswith("$"):
        return peer.python
    if not (python := os.environ.get(peer.python[1:])):
        raise RecipeError(f"{peer.script}: set {peer.python[1:]} to the Python of the venv that it runs in")
    return python
