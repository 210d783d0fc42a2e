"""Exporting a run: its model as an ONNX graph, checked on the run's own test rows before it is published."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warmstart.data.table import Table, from_rows
from warmstart.deploy.export.compare_answers import CLOSE, AnswerComparison, compare_answers
from warmstart.deploy.export.graph import quantize
from warmstart.deploy.export.write import write_export
from warmstart.errors import ModelError, RunError
from warmstart.evaluation.evaluate import eval_rows, measure, predict_rows
from warmstart.evaluation.run import RunFolder
from warmstart.inference import engine_selection
from warmstart.inference.engines.base import Engine
from warmstart.inference.engines.onnx import OnnxEngine
from warmstart.inference.exported_graph import FILES, GraphEngine
from warmstart.inference.exported_model import FILE, FOLDER, is_export, source_of
from warmstart.inference.folders import model_folder
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.prepare import read_parts
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import publish, republish
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import write_json

MAX_ROWS = 2000
"""Test rows that an export is checked on, the first ones."""
TRACE_ROWS = 32
"""Rows from which those are chosen that the model is traced with."""


def export(
    run: str | Path,
    folder: str | Path | None = None,
    *,
    int8: bool = False,
    max_drop: float = 0.5,
    rows: Iterable[Mapping[str, Any]] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Write a run's model as an ONNX graph that gives the same predictions; return what the check measured.

    Args:
        folder: The output folder; `onnx` in the run by default. An earlier export there is replaced.
        int8: Also write a model quantized to int8, if it loses no more than `max_drop`.
        max_drop: How much of the headline metric int8 may lose on the test rows, in percentage points.
        rows: Labelled rows to check on instead of the run's own test rows.
    """
    out = Path(run) / FOLDER if folder is None else Path(folder)
    source, predictor = model_folder(run), Predictor.load(run)
    with tempfile.TemporaryDirectory() as place:
        check = ExportCheck(predictor, _test_rows(run, predictor, rows, Path(place), progress), progress)
        with _replacing(out) as staging:
            write_export(predictor, source, check.questions(TRACE_ROWS), staging)
            about = {"source": source_of(source), "task": predictor.task.name, **check.compare(staging)}
            if int8:
                about["int8"] = check.quantize(staging, max_drop)
            write_json(staging / FILE, about)
    if int8 and not about["int8"]["passed"]:
        raise ModelError(
            f"{run}: with int8, {check.headline} is {_value(about['int8']['value'])} on {check.count:,} test rows, and "
            f"{_value(check.value)} with fp32: more than --max-drop {max_drop} points less, so int8 is not written; "
            f"the fp32 export is in {out}"
        )
    return {"folder": str(out), **about}


class ExportCheck:
    """A run's test rows with the answers that PyTorch gives in fp32.

    Attributes:
        value: The task's headline metric of those answers.
    """

    def __init__(self, predictor: Predictor, table: Table, progress: Progress = silent) -> None:
        self.predictor, self.progress = predictor, progress
        self.of = len(table)
        self.table = table.select(range(MAX_ROWS)) if len(table) > MAX_ROWS else table
        self.count = len(self.table)
        self.columns, self.expected = predict_rows(predictor, self.table, progress)
        self.headline = predictor.task.headline
        self.value = self._measure(self.expected)

    def questions(self, most: int) -> list[Mapping[str, Any]]:
        """The first rows, in the form that the model reads."""
        return list(itertools.islice(eval_rows(self.predictor.task, self.table), most))

    def compare(self, folder: Path) -> dict[str, Any]:
        """Refuse an export with which ONNX Runtime answers differently; whether other engines do is recorded."""
        actual = self._answers(OnnxEngine(folder))
        comparison = compare_answers(self.expected, actual)
        if not comparison.equal:
            raise ModelError(
                f"the ONNX graph of this model {_difference(comparison)}; nothing is written. Use --engine torch"
            )
        engines = {"onnx": asdict(comparison)}
        for engine in map(engine_selection.find, engine_selection.names()):
            if issubclass(engine, GraphEngine) and engine is not OnnxEngine and engine.is_installed():
                engines[engine.name] = self._compare(engine, folder)
        values = {"torch fp32": self.value, "onnx fp32": self._measure(actual)}
        return {"rows": self.count, "of": self.of, "headline": self.headline, "values": values, "engines": engines}

    def _compare(self, engine: type[GraphEngine], folder: Path) -> dict[str, Any]:
        """How the answers of another engine differ, or why there are none."""
        try:
            comparison = compare_answers(self.expected, self._answers(engine(folder)))
        except ModelError as error:
            return {"refused": str(error).replace(str(folder), FOLDER)}
        refused = {} if comparison.equal else {"refused": f"{engine.name} {_difference(comparison)}"}
        return asdict(comparison) | refused

    def quantize(self, folder: Path, max_drop: float) -> dict[str, Any]:
        """Quantize the graph to int8, and remove it again where it loses too much."""
        path = folder / FILES["int8"]
        quantize(folder / FILES["fp32"], path)
        value = self._measure(self._answers(OnnxEngine(folder, "int8")))
        drop = None if value is None or self.value is None else 100 * (self.value - value)
        passed = drop is not None and drop <= max_drop
        if not passed:
            path.unlink()
        return {"value": value, "drop": drop, "max_drop": max_drop, "passed": passed}

    def _answers(self, engine: Engine) -> list[dict[str, Any]]:
        return predict_rows(self.predictor.with_engine(engine), self.table, self.progress)[1]

    def _measure(self, predictions: list[dict[str, Any]]) -> float | None:
        return measure(self.predictor.task, self.table, self.columns, predictions)[self.headline]


def _test_rows(
    run: str | Path, predictor: Predictor, rows: Iterable[Mapping[str, Any]] | None, place: Path, progress: Progress
) -> Table:
    """The rows to check on: those given, or the run's own test rows, read again."""
    schema = predictor.task.schema(predictor.task.options)
    if rows is not None:
        return from_rows(rows, schema, place, "rows")
    recipe = RunFolder(run).recipe
    if recipe.data.train == MEMORY:
        raise RunError(
            f"{run}: its rows were passed in Python, so they cannot be read again to check an export; pass them here, "
            "too: warmstart.export(run, rows=…)"
        )
    table = read_parts(recipe, schema, cache_folder(), progress).tables.get("test")
    if table is None:
        raise RunError(f"{run} has no test rows to check an export on; pass some: warmstart.export(run, rows=…)")
    return table


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """An empty folder to write an export into, which then replaces the one before."""
    with republish(out) if is_export(out) else publish(out) as staging:
        for old in staging.iterdir():
            old.unlink()
        yield staging


def _difference(comparison: AnswerComparison) -> str:
    return (
        f"answers {comparison.differ:,} of {comparison.rows:,} test rows differently from PyTorch, and its numbers "
        f"differ by up to {comparison.worst:.1e}, expected at most {CLOSE:.0e}"
    )


def _value(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
