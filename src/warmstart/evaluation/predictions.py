"""The predictions file of a run: every evaluated row with its true answer and the model's, in Parquet.

The one place where this file is written and read. Its columns are `row` (file and line), `answer` (the true one, where
the task has one), `quality` (the task's own score of a row, where it has one), and each field of the model's answers,
such as `label` and `probabilities`.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from warmstart.errors import Location, RunError
from warmstart.storage.files import atomic_file
from warmstart.tasks.base import Answer

Columns: TypeAlias = dict[str, list[Any]]
"""Values of rows by column, as the task's schema describes them."""

PREDICTION_FILES = {"test": "predictions.parquet", "dev": "predictions-dev.parquet"}
"""The file of each part that is measured, in a run's folder."""
SIMPLE = ("label", "labels", "score")
"""Fields of answers that are a label, several labels or a number, and so compare with the true answer as they are."""
RENAMED = "given_"
"""Before the name of a field where a column of that name is there already."""
JSON = {b"holds": b"JSON"}
"""How a column of JSON text is marked."""


@dataclass(frozen=True)
class Predictions:
    """The evaluated rows of one part, in the order of the data."""

    locations: list[Location]
    """File and line of each row."""
    truth: list[Any] | None
    """The true answers; None where the text itself is the answer."""
    scores: list[float] | None
    """The task's own score of each row; None where it gives none."""
    answers: list[Answer]
    """What the model answered; the first field of an answer is the answer proper."""

    def simple_answers(self) -> list[Any] | None:
        """The label, labels or number of each answer; None for a task whose answers are something else."""
        name = next((name for name in SIMPLE if self.answers and name in self.answers[0]), None)
        return None if name is None else [answer[name] for answer in self.answers]


def write_predictions(predictions: Predictions, path: Path) -> None:
    """Write a predictions file."""
    columns: Columns = {"row": [str(location) for location in predictions.locations]}
    if predictions.truth is not None:
        columns["answer"] = predictions.truth
    if predictions.scores is not None:
        columns["quality"] = predictions.scores
    nested: list[str] = []
    for name in predictions.answers[0]:
        values = [answer[name] for answer in predictions.answers]
        column = f"{RENAMED}{name}" if name in columns else name
        # Labels are data, not columns: a mapping is kept as JSON text, whatever characters its labels have.
        if any(map(_is_nested, values)):
            values = [json.dumps(value, ensure_ascii=False) for value in values]
            nested.append(column)
        columns[column] = values
    table = pa.table(columns)
    marked = [field.with_metadata(JSON) if field.name in nested else field for field in table.schema]
    with atomic_file(path) as staging:
        pq.write_table(table.cast(pa.schema(marked)), staging)


def read_predictions(path: Path, fields: Collection[str] | None = None) -> Predictions:
    """Read a predictions file.

    Args:
        fields: The fields of answers to read; None for all.
    """
    schema = _schema(path)
    own = [name for name in ("row", "answer", "quality") if name in schema.names]
    names = [
        name for name in schema.names if name not in own and (fields is None or name.removeprefix(RENAMED) in fields)
    ]
    table = pq.read_table(path, columns=[*own, *names])
    if "row" not in own or not table.num_rows:
        raise RunError(f"{path} holds no rows; expected those the run was evaluated on")
    columns: Columns = {}
    for name in (*own, *names):
        values: list[Any] = table[name].to_pylist()
        nested = JSON.items() <= (schema.field(name).metadata or {}).items()
        columns[name] = [json.loads(value) for value in values] if nested else values
    keys = [name.removeprefix(RENAMED) for name in names]
    rows = zip(*(columns[name] for name in names), strict=True) if names else ((),) * table.num_rows
    answers = [dict(zip(keys, values, strict=True)) for values in rows]
    locations = [Location.parse(text) for text in columns["row"]]
    return Predictions(locations, columns.get("answer"), columns.get("quality"), answers)


def read_locations(path: Path) -> list[Location]:
    """File and line of each row of a predictions file."""
    return read_predictions(path, fields=()).locations


def _schema(path: Path) -> pa.Schema:
    if not path.is_file():
        raise RunError(f"{path} is missing; remove {path.parent} to have the run done again")
    return pq.read_schema(path)


def _is_nested(value: object) -> bool:
    """Whether a value holds mappings."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))
