"""Training a smaller model back: what it has lost is learned again from the run's own training rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from warmstart.data.schema import Row
from warmstart.evaluation.run import RunFolder, finished_run
from warmstart.pipeline.distil import check_teacher
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import DistilOptions, Recipe, make_recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.files import open_atomic

TrainBack: TypeAlias = Callable[[Path, Path, Progress], Path]
"""Trains the model of one folder in another, where a stopped training resumes, and gives the folder of the result."""
LearnsFrom: TypeAlias = Literal["labels", "distil"]
"""What is learned: the labels of the training rows, or what the unshrunk model answers to their texts as well."""
NOT_AGAIN = {
    "models",
    "seeds",
    "select",
    "baseline",
    "ablate",
    "stages",
    "from_scratch",
    "forgetting",
    "layers",
    "head",
}
"""Fields of a recipe that are about how the original came about."""


def fine_tune(run: RunFolder) -> TrainBack:
    """Trains with the labels of the run's training rows, and its own settings; the head goes on from where it was."""

    def train(start: Path, folder: Path, progress: Progress) -> Path:
        return _model_of(recipe_back(run, start), folder, progress)

    return train


def distil(run: RunFolder, texts: Path, columns: Sequence[str]) -> TrainBack:
    """Trains as `fine_tune` does, and with what the run's own model answers to texts.

    Args:
        texts: What `write_texts` wrote, with these columns.

    Raises:
        RecipeError: The run's task cannot be distilled.
    """
    file = {
        "file": str(texts.absolute()),
        "format": "jsonl",
        "encoding": "utf-8",
        "columns": {name: name for name in columns},
    }
    stage = {"teacher": str(run.folder.absolute()), "texts": file}
    check_teacher(DistilOptions.model_validate(stage), run.recipe)

    def train(start: Path, folder: Path, progress: Progress) -> Path:
        return _model_of(recipe_back(run, start, [{"distil": stage}]), folder, progress)

    return train


def _model_of(recipe: Recipe, folder: Path, progress: Progress) -> Path:
    """The model of a training, which may have ended before the shrinking was stopped."""
    return (finished_run(folder) or run_recipe(recipe, folder, progress)).model


def write_texts(rows: Iterable[Row], columns: Sequence[str], path: Path) -> None:
    """Write what the task reads of rows, for a teacher to answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file:
        for row in rows:
            file.write(json.dumps({name: row[name] for name in columns if name in row}) + "\n")


def recipe_back(run: RunFolder, start: Path, stages: Sequence[dict[str, Any]] = ()) -> Recipe:
    """The run's recipe, for a model that has its head already."""
    own = run.recipe.model_dump(mode="json", exclude=NOT_AGAIN)
    return make_recipe(
        {**own, "model": str(start.absolute()), **({"stages": list(stages)} if stages else {})}, "shrink"
    )
