"""What is refused before torch is imported, which takes seconds: a task, a file, a column, a model or a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from warmstart import tasks
from warmstart.data.findings import Findings
from warmstart.data.read import check_file, iter_rows
from warmstart.data.schema import Row
from warmstart.data.source import Source, is_hub
from warmstart.errors import DataError, ModelError
from warmstart.models.suggestions import is_out_of_reach
from warmstart.pipeline.claim import check_free
from warmstart.recipe import Recipe
from warmstart.recipe.recipe import CHOOSE
from warmstart.runtime import processes
from warmstart.tasks.shared.required_columns import required_columns

EXAMPLE = "sentence-transformers/all-MiniLM-L6-v2"
PARTS = ("train", "dev", "test")
ADDED = "add"
"""The field of the data whose rows are added to the training rows after the split."""


def check_recipe(recipe: Recipe, folder: Path | None = None) -> None:
    """Refuse what cannot work; what takes torch to know is left to be refused later.

    Args:
        folder: The folder of the run; None where nothing is written.
    """
    if folder is not None:
        check_free(folder)
    if folder is not None and recipe.is_sharded:
        processes.check_several("training.fsdp")
    check_files(recipe)
    for model in recipe.models or [recipe.model]:
        check_model(model)


def check_files(recipe: Recipe) -> None:
    """Refuse a task that is not known, and files that cannot be what it reads."""
    tasks.check_name(recipe.task.name)
    for part in (*PARTS, ADDED):
        reading = recipe.data.reading(part)
        if reading is not None:
            check_source(Source(**reading), recipe.task.name)


def check_source(source: Source, task: str) -> None:
    """Refuse files that are not there, and a first row without the columns of the task."""
    for file in source.files:
        check_file(file, source)
    next(first_rows(source, task, 1), None)


def first_rows(source: Source, task: str, count: int) -> Iterator[Row]:
    """Yield the first rows of a source, as far as they are known to be right without importing its task."""
    schema = required_columns(task)
    if schema is None or is_hub(source.files[0]) or source.texts:
        return
    try:
        yield from islice(iter_rows(source, schema, Findings(), drop=("empty", "unlabelled")), count)
    except DataError as error:
        if error.kind not in ("text-type", "nul", "surrogate"):  # a row's own faults are told with all the others
            raise


def check_model(model: str) -> None:
    """Refuse a model that is not there; one that may be on the Hub is looked for later."""
    if not model or model == CHOOSE or Path(model).exists():
        return
    advice = "give the folder of a model, or a name on the Hugging Face Hub"
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model:
        raise ModelError(f"{model}: there is no such folder; {advice}, such as {EXAMPLE}")
    if is_out_of_reach(model):
        raise ModelError(
            f"{model}: there is no such folder here, the Hub cache does not have it, and HF_HUB_OFFLINE is set; "
            f"{advice} that was downloaded before, or unset HF_HUB_OFFLINE"
        )
