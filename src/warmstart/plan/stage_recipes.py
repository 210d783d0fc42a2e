"""The stages of a recipe as recipes of their own, so that each can be planned before any is run."""

from __future__ import annotations

import json
import math
from pathlib import Path

from warmstart.models.from_scratch import EncoderShape, make_encoder
from warmstart.pipeline.earlier_stages import EarlierStage
from warmstart.pipeline.multitask import TEMPERATURE
from warmstart.pipeline.prepare import Rows, read_rows
from warmstart.pipeline.run_recipe import plan_stages
from warmstart.plan.teacher import with_taught_rows
from warmstart.recipe import MultitaskOptions, Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import open_atomic
from warmstart.training.settings import Settings
from warmstart.training.steps import count_epochs
from warmstart.training.task_sampling import steps_per_task, task_shares


def recipes_of_stages(recipe: Recipe, folder: Path, progress: Progress) -> list[tuple[str, Recipe]]:
    """The stages of a recipe in order, each with its name and a recipe of its own; of a multi-task stage, one per task.

    A stage is planned with the encoder that the first one starts from, since all have its shape.

    Args:
        folder: For files that are not needed afterwards.
    """
    stages: list[tuple[str, Recipe]] = []
    model, finetuned = recipe.model, recipe
    for number, stage in enumerate(plan_stages(recipe, progress), 1):
        if stage.name == "scratch":
            assert recipe.from_scratch is not None
            assert stage.texts is not None
            # Of two directions, each costs the same.
            made = make_encoder(stage.texts, folder / "scratch", EncoderShape(**recipe.from_scratch.shape), recipe.seed)
            model = str(made)
        elif stage.distil is not None:
            finetuned = with_taught_rows(stage.distil, recipe, folder / "taught.jsonl", progress)
        elif stage.options is not None:
            stages += _multitask(stage, stage.options, model, progress)
        else:
            assert stage.recipe is not None
            stages.append((stage.name, on_disk(stage.recipe.alone(model), stage.rows, folder / f"texts-{number}")))
    return [*stages, ("finetune", finetuned.alone(model))]


def on_disk(recipe: Recipe, rows: Rows, folder: Path) -> Recipe:
    """The same recipe with rows in memory written to files, for another process to read."""
    folder.mkdir(exist_ok=True)
    files = {}
    for part, part_rows in rows.items():
        files[part] = str(folder / f"{part}.jsonl")
        with open_atomic(Path(files[part])) as file:
            file.writelines(f"{json.dumps(dict(row))}\n" for row in part_rows)
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=files)})


def _multitask(
    stage: EarlierStage, options: MultitaskOptions, model: str, progress: Progress
) -> list[tuple[str, Recipe]]:
    """Each task of a multi-task stage, with as many steps as it has batches."""
    training = options.training
    rows = [len(read_rows(recipe, cache_folder(), progress).tables["train"]) for recipe in stage.tasks.values()]
    an_epoch = sum(math.ceil(count / training.rows_per_step) for count in rows)
    steps = training.max_steps or math.ceil(count_epochs(Settings(**training.for_trainer()), an_epoch) * an_epoch)
    parts = task_shares(rows, options.sampling, options.temperature or TEMPERATURE)
    own = steps_per_task(parts, max(steps, len(rows)))
    limited = [training.model_copy(update={"max_steps": count}) for count in own]
    return [
        (f"multitask: {name}", recipe.model_copy(update={"model": model, "training": each}))
        for (name, recipe), each in zip(stage.tasks.items(), limited, strict=True)
    ]
