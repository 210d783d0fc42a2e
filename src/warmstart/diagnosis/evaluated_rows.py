"""The rows a run was evaluated on, with the model's answers, and with their texts where they can be read again."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data import table
from warmstart.data.findings import Findings
from warmstart.data.schema import Column, Schema
from warmstart.data.table import Table
from warmstart.errors import Location, RunError
from warmstart.evaluation.predictions import PREDICTION_FILES, Columns, read_predictions
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import row_scores
from warmstart.pipeline.prepare import sources
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import Answer, AnyTask

Tables = Mapping[str, Table]


@dataclass(frozen=True)
class EvaluatedRows:
    """The evaluated rows of one part of a run."""

    part: str
    locations: list[Location]
    """File and line of each row."""
    truth: list[Any] | None
    """The true answers; None where the text itself is the answer."""
    answers: list[Answer]
    """What the model answered when the run was evaluated, before any calibration."""
    scores: NDArray[np.float64]
    """How good each answer is."""
    columns: Columns
    """All columns of the rows; the true answers alone where the rows cannot be read again."""

    def __len__(self) -> int:
        return len(self.locations)

    def prediction(self, index: int) -> Any:
        """The model's answer proper to a row: the first field."""
        return next(iter(self.answers[index].values()))


def read_evaluated(run: RunFolder, task: AnyTask, part: str) -> EvaluatedRows | None:
    """The evaluated rows of a part, from the run's predictions; None where it was not evaluated there."""
    path = run.folder / PREDICTION_FILES[part]
    if not path.is_file():
        return None
    predictions = read_predictions(path)
    truth, answer = predictions.truth, task.schema(task.options).answer
    columns = {answer.name: truth} if answer and truth else {}
    scores = row_scores(run.recipe.task, predictions, path)
    return EvaluatedRows(part, predictions.locations, truth, predictions.answers, scores, columns)


def with_columns(rows: EvaluatedRows, tables: Tables, schema: Schema) -> EvaluatedRows:
    """The rows with all their columns, looked up by location in any of the tables.

    Raises:
        RunError: A row is no longer where it was, or has another answer there: the files have changed since.
    """
    columns = columns_at(tables, rows.locations)
    if schema.answer and columns[schema.answer.name] != rows.truth:
        pairs = zip(columns[schema.answer.name], rows.truth or (), strict=True)
        changed = next(index for index, (now, then) in enumerate(pairs) if now != then)
        raise RunError(
            f"{rows.locations[changed]}: the answer is not that when the run was evaluated; the file has changed"
        )
    return replace(rows, columns=columns)


def columns_at(tables: Tables, locations: Sequence[Location]) -> Columns:
    """The columns of the rows at some locations, whichever part each is in."""
    files = {file for rows in tables.values() for file in rows.files}
    wanted = {_now(location, files): number for number, location in enumerate(locations)}
    left = set(wanted)
    columns: Columns = {}
    for rows in tables.values():
        own = list(rows.locations())
        chosen = [index for index, location in enumerate(own) if location in left]
        if not chosen:
            continue
        start = 0
        for chunk in rows.select(chosen).chunks(1000):
            size = len(next(iter(chunk.values())))
            for name, values in chunk.items():
                column = columns.setdefault(name, [None] * len(locations))
                for index, value in zip(chosen[start : start + size], values, strict=True):
                    column[wanted[own[index]]] = value
            start += size
        left -= {own[index] for index in chosen}
    if left:
        raise RunError(f"{min(left)}: no such row any more; the file has changed since the run was evaluated")
    return columns


def _now(location: Location, files: Collection[str]) -> Location:
    """A location by the path that its file has now: a run of `data/a.csv` has the absolute path in its recipe."""
    if location.file in files:
        return location
    own = Path(os.path.normpath(location.file)).parts
    own = tuple(part for part in own if part != "..")
    same = [file for file in files if own and Path(file).parts[-len(own) :] == own]
    return replace(location, file=same[0]) if len(same) == 1 else location


def column_at(
    run: RunFolder, schema: Schema, name: str, rows: EvaluatedRows, cache: Path, progress: Progress
) -> list[str | None]:
    """A further column of the file that the rows are from; None where its cell is empty."""
    if run.recipe.data.train == MEMORY:
        raise RunError(f"--slice-by {name}: the rows were passed in Python, so there is no file to read it from")
    grouped = Schema((*schema.columns, Column("by", "label", "what rows are grouped by", required=False)), schema.check)
    read = {part: (source, drop) for part, source, drop in sources(run.recipe)}
    source, drop = read.get(rows.part) or read["train"]
    source = replace(source, columns={**source.columns, "by": name})
    whole = table.load(source, grouped, cache, Findings(), drop=drop, progress=progress)
    return columns_at({rows.part: whole}, rows.locations)["by"]
