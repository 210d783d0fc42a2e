"""The run's own recipe trained once for each fold of its training rows, so that every row is answered unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data.table import Table
from warmstart.diagnosis.evaluated_rows import Tables
from warmstart.errors import RunError
from warmstart.evaluation.evaluate import read_answers
from warmstart.evaluation.run import PREDICTIONS, RunFolder
from warmstart.experiments.repeat import repeat
from warmstart.recipe import MEMORY, Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import write_text

FOLDER = "folds"
"""The folder of the trainings in a run; a call that was stopped goes on there."""


def trained_chances(
    run: RunFolder, tables: Tables, fold: NDArray[np.int64], names: list[str], progress: Progress
) -> NDArray[np.float64]:
    """The probability of every label for each training row, by a model trained on the rows of the other folds."""
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
    rows = repeat(_bare(run.recipe), variants, [run.recipe.seed], folder, progress, keep="numbers")
    found = np.zeros((len(fold), len(names)))
    for number, row in enumerate(rows):
        if not row.metrics:
            raise RunError(f"{row.folder}: {row.failed}; the fold's rows have no answers")
        _, _, _, given = read_answers(row.folder / PREDICTIONS["test"])
        places = np.flatnonzero(fold == number)
        for place, one in zip(places, given, strict=True):
            found[place] = [one["probabilities"].get(name, 0.0) for name in names]
    return found


def _bare(recipe: Recipe) -> dict[str, Any]:
    """The recipe without its data, which is written anew for each fold, and without asking for several trainings."""
    values = recipe.model_dump(mode="json", exclude={"data", "seeds", "baseline", "ablate"})
    return {**values, "data": {"train": MEMORY}}


def _data(files: dict[str, Path], rows: Table) -> dict[str, Any]:
    columns = {name: name for name in ("text", "pair", "label") if name in rows.rows.column_names}
    named = {part: str(path.resolve()) for part, path in files.items()}
    return {**named, "columns": columns, "format": "jsonl", "split": {"test": 0, "dev": 0}}


def _write(rows: Table, path: Path) -> None:
    """Rows as JSONL, the same bytes for the same rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for chunk in rows.chunks(1000):
        for values in zip(*chunk.values(), strict=True):
            lines.append(json.dumps(dict(zip(chunk, values, strict=True)), ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))
