"""The evaluate stage: a finished model's answers on labelled rows, and the numbers that sum them up."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warmstart.data.table import Table
from warmstart.inference.predictor import Predictor
from warmstart.inference.search import rank_rows
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import Task

GIVEN = "given_"
"""Before the name of what is given where a column of that name is there already."""
JSON = {b"holds": b"JSON"}
"""How a column of JSON text is marked."""


def evaluate(
    predictor: Predictor, rows: Table, predictions: Path | None = None, progress: Progress = silent
) -> dict[str, Any]:
    """Answer every row and measure: the metrics of the task, and `rows`.

    Where texts are longer than the window, `rows_cut` says how many, and `share_cut` what share of all tokens is not
    seen.

    Args:
        predictions: A Parquet file to keep each row's place, true answer and given answer in.
    """
    task = predictor.task
    answer = task.schema(task.options).answer
    if answer:
        task.check_answers(rows.column(answer.name), rows.where)
    before = replace(predictor.cut)
    columns, given = answers(predictor, rows, progress)
    found = measure(task, rows, columns, given, predictions)
    cut = predictor.cut.since(before)
    return {**found, **({"rows_cut": cut.rows_cut, "share_cut": cut.share} if cut.rows_cut else {})}


def measure(
    task: Task[Any],
    rows: Table,
    columns: Mapping[str, Sequence[Any]],
    given: list[dict[str, Any]],
    predictions: Path | None = None,
) -> dict[str, Any]:
    """The metrics of answers to every row, whoever gave them, and `rows`; kept in a Parquet file where one is named.

    Args:
        columns: What the task's metrics look at, as `answers` gives it.
    """
    found = task.measure(columns, given)
    if predictions is not None:
        answer = task.schema(task.options).answer
        gold = list(rows.column(answer.name)) if answer else None
        _keep(rows, gold, given, predictions, task.scores(columns, given))
    # JSON has no NaN: an undefined number is null there.
    return {**{name: None if math.isnan(value) else value for name, value in found.items()}, "rows": len(rows)}


def answers(
    predictor: Predictor, rows: Table, progress: Progress = silent
) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    """The columns that the task's metrics look at, and the predictor's answer to every row."""
    given: list[dict[str, Any]] = []
    with progress.bar("testing", len(rows)) as bar:
        for prediction in _search(predictor, rows) or predictor.stream(exams(predictor.task, rows)):
            given.append(prediction)
            bar.advance()
    wanted = [name for name in predictor.task.measured if name in rows.rows.column_names]
    return {name: list(rows.column(name)) for name in wanted}, given


def exams(task: Task[Any], rows: Table) -> Iterator[Mapping[str, Any]]:
    """Rows as a model is asked them when it is measured."""
    return (task.exam(row, number) for number, row in enumerate(_rows(rows)))


def _search(predictor: Predictor, rows: Table) -> Iterator[dict[str, Any]] | None:
    """The answers of a search among all documents, where the task is measured so."""
    if not predictor.task.searches(rows.documents is not None):
        return None
    names = [name for name in (*predictor.task.measured, "negative") if name in rows.rows.column_names]
    beside = rows.documents
    collection = None if beside is None else {name: list(beside.column(name)) for name in ("id", "text")}
    return rank_rows(predictor, {name: list(rows.column(name)) for name in names}, collection)


def _rows(rows: Table) -> Iterator[Mapping[str, Any]]:
    for chunk in rows.chunks(1000):
        names = list(chunk)
        yield from (dict(zip(names, values, strict=True)) for values in zip(*chunk.values(), strict=True))


def _keep(
    rows: Table, gold: list[Any] | None, given: list[dict[str, Any]], path: Path, scores: Sequence[float] | None
) -> None:
    columns: dict[str, list[Any]] = {"row": [rows.where(index) for index in range(len(rows))]}
    if gold is not None:
        columns["answer"] = gold
    if scores is not None:
        columns["quality"] = list(scores)
    nested: list[str] = []
    for name in given[0]:
        values = [prediction[name] for prediction in given]
        column = f"{GIVEN}{name}" if name in columns else name
        # Labels are data, not columns: a mapping is kept as JSON text, whatever characters its labels have.
        if any(map(_nested, values)):
            values = [json.dumps(value, ensure_ascii=False) for value in values]
            nested.append(column)
        columns[column] = values
    found = pa.table(columns)
    marked = [one.with_metadata(JSON) if one.name in nested else one for one in found.schema]
    pq.write_table(found.cast(pa.schema(marked)), path)


def read_answers(path: Path) -> tuple[list[str], list[Any] | None, list[float] | None, list[dict[str, Any]]]:
    """What `evaluate` kept: each row's place, its true answer, its score by the task, and the answer as it was given.

    The second and the third are None where the task has none.
    """
    found = pq.read_table(path)
    own: dict[str, list[Any]] = {}
    for field in found.schema:
        values = found[field.name].to_pylist()
        nested = JSON.items() <= (field.metadata or {}).items()
        own[field.name] = list(map(json.loads, values)) if nested else values
    kept = {name: own.pop(name, None) for name in ("row", "answer", "quality")}
    names = [name.removeprefix(GIVEN) for name in own]
    given = [dict(zip(names, values, strict=True)) for values in zip(*own.values(), strict=True)]
    return kept["row"] or [], kept["answer"], kept["quality"], given


def _nested(value: Any) -> bool:
    """Whether a value holds mappings."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))
