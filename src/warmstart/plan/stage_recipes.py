"""The stages of a recipe as recipes that stand alone, so that each can be planned before any is carried out."""

from __future__ import annotations

import json
import math
from pathlib import Path

from warmstart.models.scratch import make_encoder
from warmstart.pipeline.earlier_stages import Stage
from warmstart.pipeline.multitask import TEMPERATURE
from warmstart.pipeline.prepare import Rows, read_rows
from warmstart.pipeline.run_recipe import plan_stages
from warmstart.recipe import Multitask, Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.training.settings import Settings
from warmstart.training.steps import epochs_of
from warmstart.training.task_sampling import shares, turns


def stages_of(recipe: Recipe, folder: Path, progress: Progress) -> list[tuple[str, Recipe]]:
    """The stages of a recipe in their order, each a name and a recipe of its own; of several tasks at once, one each.

    A stage is planned with the encoder that the first one starts from, since all have its shape.

    Args:
        folder: For files that are not needed afterwards.
    """
    found: list[tuple[str, Recipe]] = []
    model = recipe.model
    for number, stage in enumerate(plan_stages(recipe, progress), 1):
        if stage.name == "scratch":
            assert recipe.from_scratch is not None
            assert stage.texts is not None
            made = make_encoder(stage.texts, folder / "scratch", seed=recipe.seed, **recipe.from_scratch.model_dump())
            model = str(made)
        elif stage.options is not None:
            found += _together(stage, stage.options, model, progress)
        else:
            assert stage.recipe is not None
            found.append((stage.name, on_disk(stage.recipe.alone(model), stage.rows, folder / f"texts-{number}")))
    return [*found, ("finetune", recipe.alone(model))]


def on_disk(recipe: Recipe, rows: Rows, folder: Path) -> Recipe:
    """The same recipe on rows that were handed over, written into a folder: another process is to read them."""
    folder.mkdir(exist_ok=True)
    files = {}
    for part, some in rows.items():
        files[part] = str(folder / f"{part}.jsonl")
        with Path(files[part]).open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(dict(row))}\n" for row in some)
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=files)})


def _together(stage: Stage, options: Multitask, model: str, progress: Progress) -> list[tuple[str, Recipe]]:
    """Each task of a multi-task stage, with as many steps as it has turns."""
    training = options.training
    rows = [len(read_rows(one, cache_folder(), progress).tables["train"]) for one in stage.together.values()]
    an_epoch = sum(math.ceil(count / training.batch_size) for count in rows)
    steps = training.max_steps or math.ceil(epochs_of(Settings(**training.model_dump()), an_epoch) * an_epoch)
    parts = shares(rows, options.sampling, options.temperature or TEMPERATURE)
    own = turns(parts, max(steps, len(rows)))
    limited = [training.model_copy(update={"max_steps": count}) for count in own]
    return [
        (f"multitask: {name}", one.model_copy(update={"model": model, "training": each}))
        for (name, one), each in zip(stage.together.items(), limited, strict=True)
    ]
