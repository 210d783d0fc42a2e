"""Cross-validation: the run's own recipe trained once per fold, so that every training row is predicted unseen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.data.table import Table
from warmstart.diagnosis.evaluated_rows import Tables
from warmstart.errors import RunError
from warmstart.evaluation.predictions import PREDICTION_FILES, read_predictions
from warmstart.evaluation.run import RunFolder
from warmstart.experiments.repeat import repeat
from warmstart.options import Values
from warmstart.recipe import MEMORY, Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.files import write_text
from warmstart.storage.folders import make_folder

FOLDER = "folds"
"""The folder of the trainings in a run; a call that was stopped resumes there."""


def finetuned_probabilities(
    run: RunFolder, tables: Tables, fold: NDArray[np.int64], names: list[str], progress: Progress
) -> NDArray[np.float64]:
    """The probability of every label for each training row, by a model fine-tuned on the rows of the other folds."""
    count = int(fold.max()) + 1
    folder = run.folder / FOLDER / f"of-{count}"
    variants = {}
    for number in range(count):
        files = {"train": folder / "data" / f"{number}-train.jsonl", "test": folder / "data" / f"{number}-test.jsonl"}
        _write(tables["train"].select(np.flatnonzero(fold != number)), files["train"])
        _write(tables["train"].select(np.flatnonzero(fold == number)), files["test"])
        if "dev" in tables:
            files["dev"] = folder / "data" / "dev.jsonl"
            _write(tables["dev"], files["dev"])
        variants[f"fold-{number}"] = {"data": _data(files, tables["train"])}
    results = repeat(_bare(run.recipe), variants, [run.recipe.seed], folder, progress, keep="numbers")
    probabilities = np.zeros((len(fold), len(names)))
    for number, result in enumerate(results):
        if not result.metrics:
            raise RunError(f"{result.folder}: {result.failed}; the fold's rows have no predictions")
        answers = read_predictions(result.folder / PREDICTION_FILES["test"]).answers
        for row, answer in zip(np.flatnonzero(fold == number), answers, strict=True):
            probabilities[row] = [answer["probabilities"].get(name, 0.0) for name in names]
    return probabilities


def _bare(recipe: Recipe) -> Values:
    """The recipe without its data, which each fold has its own of, and as a single training."""
    values = recipe.model_dump(mode="json", exclude={"data", "seeds", "baseline", "ablate"})
    return {**values, "data": {"train": MEMORY}}


def _data(files: dict[str, Path], rows: Table) -> Values:
    columns = {name: name for name in ("text", "pair", "label") if name in rows.rows.column_names}
    named = {part: str(path.resolve()) for part, path in files.items()}
    return {**named, "columns": columns, "format": "jsonl", "split": {"test": 0, "dev": 0}}


def _write(rows: Table, path: Path) -> None:
    """Rows as JSONL, the same bytes for the same rows."""
    make_folder(path.parent)
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.dicts()))
