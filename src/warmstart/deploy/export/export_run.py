"""Exporting a run: its model for another engine, checked on the run's own test rows before it is published."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from warmstart.data.table import Table, from_rows
from warmstart.deploy.export.compare_answers import CLOSE, Same, hold_against
from warmstart.deploy.export.graph import quantize
from warmstart.deploy.export.write import write_export
from warmstart.errors import ModelError, RunError
from warmstart.evaluation.evaluate import answers, exams, measure
from warmstart.evaluation.run import RunFolder
from warmstart.inference.engines.base import Engine
from warmstart.inference.engines.onnx import FILES, Onnx
from warmstart.inference.engines.opening import PACKAGES
from warmstart.inference.engines.openvino import OpenVino
from warmstart.inference.exported_model import FILE, FOLDER, is_export, source_of
from warmstart.inference.predictor import Predictor, model_folder
from warmstart.pipeline.prepare import read_parts
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import publish, republish, write_json
from warmstart.storage.cache import cache_folder

MOST = 2000
"""Test rows that an export is checked on, the first ones."""
ROWS = 32
"""Rows among which those are found that the model is traced with."""


def export(
    run: str | Path,
    folder: str | Path | None = None,
    *,
    int8: bool = False,
    max_drop: float = 0.5,
    rows: Iterable[Mapping[str, Any]] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Write a run's model as an ONNX graph that gives the same answers, and say what was found when it was checked.

    Args:
        folder: Where to put it; `onnx` in the run by default. An earlier export there is replaced.
        int8: Write the weights in whole numbers of 8 bits, too, if that loses no more than `max_drop`.
        max_drop: Points of the task's headline, out of 100, that whole numbers may lose on the test rows.
        rows: Labelled rows to check on instead of the run's own test rows.
    """
    out = Path(run) / FOLDER if folder is None else Path(folder)
    source, predictor = model_folder(run), Predictor.load(run)
    with tempfile.TemporaryDirectory() as place:
        exam = Exam(predictor, _test_rows(run, predictor, rows, Path(place), progress), progress)
        with _replacing(out) as staging:
            write_export(predictor, source, exam.asked(ROWS), staging)
            about = {"source": source_of(source), "task": predictor.task.name, **exam.check(staging)}
            if int8:
                about["int8"] = exam.check_whole_numbers(staging, max_drop)
            write_json(staging / FILE, about)
    if int8 and not about["int8"]["passed"]:
        raise ModelError(
            f"{run}: in whole numbers {exam.headline} is {_told(about['int8']['value'])} on {exam.count:,} test "
            f"rows, and {_told(exam.value)} in 32: more than --max-drop {max_drop} points less, so no int8 is written; "
            f"the export in 32 bits is in {out}"
        )
    return {"folder": str(out), **about}


class Exam:
    """A run's test rows with the answers that PyTorch gives to them in 32 bits.

    Attributes:
        value: The task's headline of those answers.
    """

    def __init__(self, predictor: Predictor, table: Table, progress: Progress = silent) -> None:
        self.predictor, self.progress = predictor, progress
        self.of = len(table)
        self.table = table.select(range(MOST)) if len(table) > MOST else table
        self.count = len(self.table)
        self.columns, self.expected = answers(predictor, self.table, progress)
        self.headline = predictor.task.headline
        self.value = self._measure(self.expected)

    def asked(self, most: int) -> list[Mapping[str, Any]]:
        """The first rows, as a model is asked them."""
        return list(itertools.islice(exams(self.predictor.task, self.table), most))

    def check(self, folder: Path) -> dict[str, Any]:
        """Refuse an export that ONNX Runtime answers otherwise by; whether OpenVINO does is noted, if it is here."""
        found = self._answers(Onnx(folder))
        same = hold_against(self.expected, found)
        if not same.holds:
            raise ModelError(f"the ONNX graph of this model {_apart(same)}; nothing is written. Say --engine torch")
        engines = {"onnx": asdict(same)}
        if all(map(find_spec, PACKAGES["openvino"])):
            engines["openvino"] = self._openvino(folder)
        values = {"torch fp32": self.value, "onnx fp32": self._measure(found)}
        return {"rows": self.count, "of": self.of, "headline": self.headline, "values": values, "engines": engines}

    def _openvino(self, folder: Path) -> dict[str, Any]:
        """How OpenVINO's answers differ, or why it gives none."""
        try:
            same = hold_against(self.expected, self._answers(OpenVino(folder)))
        except ModelError as error:
            return {"refused": str(error).replace(str(folder), FOLDER)}
        return asdict(same) | ({} if same.holds else {"refused": f"OpenVINO {_apart(same)}"})

    def check_whole_numbers(self, folder: Path, max_drop: float) -> dict[str, Any]:
        """Write the graph in whole numbers, and take it away again where it loses too much."""
        path = folder / FILES["int8"]
        quantize(folder / FILES["fp32"], path)
        value = self._measure(self._answers(Onnx(folder, "int8")))
        drop = None if value is None or self.value is None else 100 * (self.value - value)
        passed = drop is not None and drop <= max_drop
        if not passed:
            path.unlink()
        return {"value": value, "drop": drop, "max_drop": max_drop, "passed": passed}

    def _answers(self, engine: Engine) -> list[dict[str, Any]]:
        return answers(self.predictor.by(engine), self.table, self.progress)[1]

    def _measure(self, found: list[dict[str, Any]]) -> float | None:
        return measure(self.predictor.task, self.table, self.columns, found)[self.headline]  # type: ignore[no-any-return]


def _test_rows(
    run: str | Path, predictor: Predictor, rows: Iterable[Mapping[str, Any]] | None, place: Path, progress: Progress
) -> Table:
    """The rows to check on: those handed over, or the run's own test rows, read again."""
    schema = predictor.task.schema(predictor.task.options)
    if rows is not None:
        return from_rows(rows, schema, place, "rows")
    recipe = RunFolder(run).recipe
    if recipe.data.train == MEMORY:
        raise RunError(
            f"{run}: its rows were handed over in Python, so they cannot be read again to check an export; export it "
            "there, too: warmstart.export(run, rows=…)"
        )
    found = read_parts(recipe, schema, cache_folder(), progress).tables.get("test")
    if found is None:
        raise RunError(f"{run} has no test rows to check an export on; hand some over: warmstart.export(run, rows=…)")
    return found


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """An empty folder to write an export into; on leaving, it takes the place of the one before."""
    with republish(out) if is_export(out) else publish(out) as staging:
        for old in staging.iterdir():
            old.unlink()
        yield staging


def _apart(same: Same) -> str:
    return (
        f"answers {same.differ:,} of {same.rows:,} test rows otherwise than PyTorch, and its numbers are up to "
        f"{same.worst:.1e} apart, expected {CLOSE:.0e} at most"
    )


def _told(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
