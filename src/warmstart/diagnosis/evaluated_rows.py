"""The rows a run was measured on, each with the answer it was given, and its texts where they can be read again."""

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
from warmstart.errors import RunError
from warmstart.evaluation.evaluate import read_answers
from warmstart.evaluation.run import PREDICTIONS, RunFolder
from warmstart.evaluation.run_result import scores_of
from warmstart.pipeline.prepare import sources
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import Task

Tables = Mapping[str, Table]


@dataclass(frozen=True)
class Answered:
    """The measured rows of one part of a run."""

    part: str
    places: list[str]
    """File and line of each row."""
    answers: list[Any] | None
    """What the data says; None where the text itself is the answer."""
    given: list[dict[str, Any]]
    """What the model says, as the predictor gave it when the run was measured, before any calibration."""
    scores: NDArray[np.float64]
    """How good each answer is."""
    columns: dict[str, list[Any]]
    """All that the rows hold; the answers alone where they cannot be read again."""

    def __len__(self) -> int:
        return len(self.places)

    def said(self, index: int) -> Any:
        """What the model says of a row: the first of what it gives."""
        return next(iter(self.given[index].values()))


def read_answered(run: RunFolder, task: Task[Any], part: str) -> Answered | None:
    """The measured rows of a part from what the run has kept; None where it was not measured there."""
    path = run.folder / PREDICTIONS[part]
    if not path.is_file():
        return None
    places, answers, quality, given = read_answers(path)
    if not places:
        raise RunError(f"{path} holds no rows; expected those the run was measured on")
    if quality is not None:
        scores = np.asarray(quality, dtype=float)
    else:
        scores = scores_of(answers or [], [next(iter(one.values())) for one in given])
    answer = task.schema(task.options).answer
    return Answered(part, places, answers, given, scores, {answer.name: answers} if answer and answers else {})


def with_columns(found: Answered, tables: Tables, schema: Schema) -> Answered:
    """The rows with all their columns, found by their places in any of the tables.

    Raises:
        RunError: A row is no longer where it was, or has another answer there: the files have changed since.
    """
    columns = columns_at(tables, found.places)
    if schema.answer and columns[schema.answer.name] != found.answers:
        where = next(i for i, one in enumerate(columns[schema.answer.name]) if one != (found.answers or [])[i])
        raise RunError(f"{found.places[where]}: the answer is another than when the run was measured; the file changed")
    return replace(found, columns=columns)


def columns_at(tables: Tables, places: Sequence[str]) -> dict[str, list[Any]]:
    """The columns of the rows at some places, whichever part each is in."""
    files = {file for one in tables.values() for file in one.files}
    wanted = {_now(place, files): number for number, place in enumerate(places)}
    left = set(wanted)
    columns: dict[str, list[Any]] = {}
    for one in tables.values():
        own = places_of(one)
        chosen = [index for index, place in enumerate(own) if place in left]
        if not chosen:
            continue
        start = 0
        for chunk in one.select(chosen).chunks(1000):
            size = len(next(iter(chunk.values())))
            for name, values in chunk.items():
                column = columns.setdefault(name, [None] * len(places))
                for index, value in zip(chosen[start : start + size], values, strict=True):
                    column[wanted[own[index]]] = value
            start += size
        left -= {own[index] for index in chosen}
    if left:
        raise RunError(f"{min(left)}: no such row any more; the file changed since the run was measured")
    return columns


def _now(place: str, files: Collection[str]) -> str:
    """A place by the name that its file has now: a run that was told of `data/a.csv` says later where that was."""
    told, colon, line = place.rpartition(":")
    if told in files:
        return place
    own = Path(os.path.normpath(told)).parts
    own = tuple(part for part in own if part != "..")
    same = [file for file in files if own and Path(file).parts[-len(own) :] == own]
    return f"{same[0]}{colon}{line}" if len(same) == 1 else place


def places_of(rows: Table) -> list[str]:
    """File and line of every row, as `Table.where` tells them."""
    before = [f"{file}:{unit}" for file, unit in zip(rows.files, rows.units, strict=True)]
    return [
        f"{before[file]}{line}"
        for files, lines in rows.arrays(["file", "line"])
        for file, line in zip(files.to_pylist(), lines.to_pylist(), strict=True)
    ]


def column_at(
    run: RunFolder, schema: Schema, name: str, found: Answered, cache: Path, progress: Progress
) -> list[str | None]:
    """A further column of the file that rows were measured from; None where its cell is empty."""
    if run.recipe.data.train == MEMORY:
        raise RunError(f"--by {name}: the rows were handed over in Python, so there is no file to read it from")
    asked = Schema((*schema.columns, Column("by", "label", "what rows are grouped by", required=False)), schema.check)
    read = {part: (source, drop) for part, source, drop in sources(run.recipe)}
    source, drop = read.get(found.part) or read["train"]
    said = replace(source, columns={**source.columns, "by": name})
    rows = table.load(said, asked, cache, Findings(), drop_unlabelled=drop, progress=progress)
    return columns_at({found.part: rows}, found.places)["by"]
