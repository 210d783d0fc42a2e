"""One run in numbers: what it scored, what it cost, and whether it learned anything at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from warmstart.errors import RunError
from warmstart.evaluation.run import PREDICTIONS, RunFolder
from warmstart.storage.json_files import read_text
from warmstart.tasks.shared import metrics

MARGIN = 0.05
"""How far a run must come from the most frequent answer towards all answers right, or it has failed."""
LEAST_PEARSON = 0.1
"""The correlation below which a run of numbers has failed."""
FAILURE = "failure.txt"
"""The file of a run whose training went wrong, with the error."""
GIVEN = ("label", "labels", "score")
"""The column of given answers, by the kind of task."""
QUALITY = "quality"
"""The column with the task's own score of each row, where it gives one."""


@dataclass(frozen=True)
class Row:
    """One run of an experiment, read from its folder."""

    variant: str
    seed: int
    folder: Path
    part: str
    """What `value` was measured on: `test`, or `dev` where there are no test rows."""
    metrics: dict[str, dict[str, Any]]
    """All that was measured, by part."""
    headline: str
    """The metric that counts: the task's first."""
    value: float
    """The headline; NaN where it is undefined or nothing came to be measured."""
    steps: int
    seconds: float
    """Training time."""
    failed: str
    """Why the run counts as failed, or nothing: it learned no more than to give one answer, or did not finish."""

    @cached_property
    def places(self) -> list[str]:
        """File and line of each measured row."""
        found: list[str] = pq.read_table(self.folder / PREDICTIONS[self.part], columns=["row"])["row"].to_pylist()
        return found

    @cached_property
    def names(self) -> list[str]:
        """The same without folders, as a file may be named from anywhere."""
        return [place.replace("\\", "/").rpartition("/")[2] for place in self.places]

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """How good each answer is, more is better, in the order of `places`.

        As the task itself scores a row; else 1 or 0 for one label, the F1 of the row's labels for many, minus the
        absolute error for a number.
        """
        path = self.folder / PREDICTIONS[self.part]
        if QUALITY in _columns(path):
            return np.asarray(pq.read_table(path, columns=[QUALITY])[QUALITY].to_numpy(), dtype=float)
        _, answers, given = read_predictions(path)
        return scores_of(answers, given)


def read_row(folder: Path, variant: str, seed: int) -> Row:
    """The row of a finished run, or of one whose training went wrong."""
    if (folder / FAILURE).is_file():
        why = read_text(folder / FAILURE, RunError).strip()
        return Row(variant, seed, folder, "test", {}, "", float("nan"), 0, 0.0, why)
    run = RunFolder(folder)
    part = next((part for part in PREDICTIONS if part in run.metrics), None)
    if part is None:
        raise RunError(f"{folder}: nothing was measured; give the recipe test rows, by data.test or data.split.test")
    # The task names its metrics with the headline first.
    headline, value = next(iter(run.metrics[part].items()))
    value = float("nan") if value is None else float(value)
    columns = _columns(folder / PREDICTIONS[part])
    # An answer in a context has a score, too, which is not its answer: the task itself scores such rows.
    if set(GIVEN) & set(columns) and QUALITY not in columns:
        _, answers, given = read_predictions(folder / PREDICTIONS[part])
        failed = why_failed(value, answers, given)
    else:
        failed = "" if value >= MARGIN else f"the {headline} is {value:.3f}"
    history = run.training
    return Row(variant, seed, folder, part, run.metrics, headline, value, history["steps"], history["seconds"], failed)


def read_predictions(path: Path) -> tuple[list[str], list[Any], list[Any]]:
    """The places, true answers and given answers of a run's measured rows."""
    columns = _columns(path)
    given = next((name for name in GIVEN if name in columns), None)
    if given is None:
        raise RunError(f"{path}: found the columns {', '.join(columns)}; expected one of {', '.join(GIVEN)}")
    found = pq.read_table(path, columns=["row", "answer", given])
    return tuple(found[name].to_pylist() for name in ("row", "answer", given))


def _columns(path: Path) -> list[str]:
    if not path.is_file():
        raise RunError(f"{path} is missing; remove {path.parent} to have the run done again")
    names: list[str] = pq.read_schema(path).names
    return names


def why_failed(value: float, answers: Sequence[Any], given: Sequence[Any]) -> str:
    """Why a run counts as failed, or nothing.

    It does when all its answers are the same, or when its headline is not above that of always giving the most
    frequent answer by `MARGIN` of the way from there to 1; for numbers, when their correlation is below
    `LEAST_PEARSON` or undefined. One answer among rows that all have the same is no failure.
    """
    if isinstance(given[0], float):
        if value >= LEAST_PEARSON:
            return ""
        return f"the correlation is {value:.3f}" if value == value else "the correlation is undefined"
    truth, answer = [_key(one) for one in answers], [_key(one) for one in given]
    if len(set(truth)) == 1:
        return ""
    if len(set(answer)) == 1:
        return f"every answer is {given[0]!r}"
    frequent = Counter(truth).most_common(1)[0][0]
    chance = _headline_of_one(truth, frequent)
    if value > chance + MARGIN * (1 - chance):
        return ""
    return f"{value:.3f} is hardly above {chance:.3f}, what always giving {_words(frequent)} gets"


def _headline_of_one(truth: Sequence[Any], answer: Any) -> float:
    """The headline of giving one answer to all rows."""
    if not isinstance(answer, tuple):
        return truth.count(answer) / len(truth)
    names = sorted({name for one in truth for name in one})
    gold = [[int(name in one) for name in names] for one in truth]
    always = [int(name in answer) for name in names]
    return metrics.many_labels(gold, [always] * len(gold))["micro_f1"]


def scores_of(answers: Sequence[Any], given: Sequence[Any]) -> NDArray[np.float64]:
    """How good each answer is where the task gives no score of its own, as `Row.scores` says."""
    if isinstance(given[0], float):
        errors: NDArray[np.float64] = np.abs(np.asarray(answers, dtype=float) - np.asarray(given, dtype=float))
        return -errors
    if isinstance(given[0], list):
        return np.array([_f1(set(a), set(b)) for a, b in zip(answers, given, strict=True)])
    return np.array([float(a == b) for a, b in zip(answers, given, strict=True)])


def _f1(truth: set[str], answer: set[str]) -> float:
    return 2 * len(truth & answer) / (len(truth) + len(answer)) if truth or answer else 1.0


def _key(answer: Any) -> Any:
    """An answer that can be counted: several labels have no order."""
    return tuple(sorted(answer)) if isinstance(answer, list) else answer


def _words(answer: Any) -> str:
    return repr(list(answer) if isinstance(answer, tuple) else answer)
