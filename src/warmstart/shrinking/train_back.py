"""Training a smaller model back: what it has lost with its blocks is learned again from the run's own training rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from warmstart.evaluation.run import RunFolder
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import Recipe, make_recipe
from warmstart.runtime.progress import Progress

TrainBack: TypeAlias = Callable[[Path, Path, Progress], Path]
"""Trains the model of one folder in another, where a stopped training resumes, and gives the folder of the result."""
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
        return run_recipe(recipe_back(run, start), folder, progress).model

    return train


def recipe_back(run: RunFolder, start: Path) -> Recipe:
    """The run's recipe, for a model that has its head already."""
    own = run.recipe.model_dump(mode="json", exclude=NOT_AGAIN)
    return make_recipe({**own, "model": str(start.absolute())}, "shrink")
