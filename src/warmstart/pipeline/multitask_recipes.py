"""Before a multi-task training: the recipes of its tasks, read, opened and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmstart.errors import RecipeError, nearest
from warmstart.options import Value
from warmstart.pipeline.finetune import PreparedTraining, prepare_training
from warmstart.pipeline.fingerprint import multitask_identity
from warmstart.pipeline.leakage import without_overlap
from warmstart.pipeline.prepare import Parts, Rows, read_rows
from warmstart.pipeline.stage_store import Identity
from warmstart.recipe import CheckpointOptions, ForgettingOptions, HeadOptions, LayerOptions, Recipe, load_recipe
from warmstart.recipe.multitask import LAYERS_TOGETHER, MultitaskOptions
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress

OWN = "own"
"""The name of a recipe's own task among those that are trained together."""
TRAINED = "trained"
"""The folder of a stage that records its training, published when its models are in place."""


@dataclass(frozen=True)
class MultitaskStage:
    """A training of several tasks on one encoder.

    Args:
        recipes: The tasks by name, all with the same model. Each gives its task, data, window and head, and its seed
            decides what is held out; how to train is decided by `options`.
        seed: Decides the initial weights of the heads, the order of rows, and dropout.
        checkpoints: When the training saves checkpoints.
        trainer: Passed on to `transformers.TrainingArguments`.
        rows: Rows passed in Python for tasks by name, which replace their files.
        forgetting: How to measure what the encoder forgets; None for not at all.
    """

    recipes: Mapping[str, Recipe]
    options: MultitaskOptions
    seed: int = 0
    checkpoints: CheckpointOptions = field(default_factory=CheckpointOptions)
    trainer: Mapping[str, Value] = field(default_factory=dict)
    rows: Mapping[str, Rows] = field(default_factory=dict)
    forgetting: ForgettingOptions | None = None


def task_recipes(recipe: Recipe, options: MultitaskOptions, folder: Path) -> dict[str, Recipe]:
    """The recipes of the tasks that are trained together, by name, all with the recipe's own model.

    Args:
        folder: The recipe's own folder, to which the paths of the others are relative.
    """
    recipes = {OWN: recipe.model_copy(update={"forgetting": None})} if options.include_own else {}
    for file in options.others:
        name = Path(file).stem
        if name in recipes:
            raise RecipeError(f"multitask.with: two tasks would have the name {name}; rename {file}")
        recipes[name] = load_recipe(folder / file).model_copy(update={"model": recipe.model, "forgetting": None})
    return recipes


@dataclass(frozen=True)
class PreparedMultitask:
    """All tasks of a stage, opened and checked against each other."""

    stage: MultitaskStage
    tasks: Mapping[str, PreparedTraining]
    parts: Mapping[str, Parts]
    identity: Identity


def prepare_multitask(stage: MultitaskStage, cache: Path, work: Path, progress: Progress) -> PreparedMultitask:
    """Read the rows of every task and open its model, so that errors come before anything is written."""
    recipes, options, rows = stage.recipes, stage.options, stage.rows
    _check(recipes, options)
    parts = {}
    for name, recipe in recipes.items():
        store = cache if name not in rows else work / f"rows-{processes.rank()}" / name
        parts[name] = read_rows(recipe, store, progress, rows.get(name))
    parts = without_overlap(recipes, parts)
    prepared = {}
    for number, (name, recipe) in enumerate(recipes.items()):
        own = work / name
        own.mkdir(parents=True, exist_ok=True)
        # Another seed for each, so that heads of the same size start from different weights.
        combined = _combined(recipe, stage, stage.seed + number)
        prepared[name] = prepare_training(combined, parts[name], own, progress)
    _check_tokens(prepared)
    identity = multitask_identity(_shared(stage), {name: task.identity for name, task in prepared.items()})
    return PreparedMultitask(stage, prepared, parts, identity)


def _combined(recipe: Recipe, stage: MultitaskStage, seed: int) -> Recipe:
    """A task's recipe, trained as the stage decides; of its own it keeps what the head looks like."""
    options = stage.options
    own = {name: getattr(recipe.head, name) for name in ("type", "layers", "pooling", "init", "reuse")}
    head = HeadOptions(**own, learning_rate=options.head.learning_rate)
    layers = LayerOptions(**{name: getattr(options.layers, name) for name in LAYERS_TOGETHER})
    update = {
        "layers": layers,
        "head": head,
        "training": options.training,
        "seed": seed,
        "trainer": dict(stage.trainer),
    }
    return recipe.model_copy(update=update)


def _shared(stage: MultitaskStage) -> dict[str, object]:
    """The settings for all tasks, as plain values."""
    plain = stage.options.model_dump(mode="json", exclude={"others", "include_own", "keep_head"})
    layers = {name: plain["layers"][name] for name in LAYERS_TOGETHER}
    head = {"learning_rate": plain["head"]["learning_rate"]}
    return {**plain, "layers": layers, "head": head, "seed": stage.seed, "trainer": dict(stage.trainer)}


def _check(recipes: Mapping[str, Recipe], options: MultitaskOptions) -> None:
    if len({recipe.model for recipe in recipes.values()}) != 1:
        models = ", ".join(f"{name}: {recipe.model}" for name, recipe in recipes.items())
        raise RecipeError(f"multitask: found several models ({models}), and one encoder is shared; give all the same")
    for name in recipes:
        if Path(name).name != name or name.startswith("."):
            raise RecipeError(
                f"multitask: found a task named {name!r}, expected a name that a folder can have; rename it"
            )
    for name in options.loss_weights if isinstance(options.loss_weights, dict) else ():
        if name not in recipes:
            raise RecipeError(f"multitask.loss_weights: {name!r} is not a task here; {nearest(name, recipes)}")


def _check_tokens(prepared: Mapping[str, PreparedTraining]) -> None:
    """Refuse tasks whose added tokens differ: each would give the same embedding another meaning."""
    added = {name: ready.task.new_tokens for name, ready in prepared.items() if ready.task.new_tokens}
    if len(set(added.values())) > 1:
        listed = "; ".join(f"{name}: {' '.join(tokens)}" for name, tokens in added.items())
        raise RecipeError(
            f"multitask: tasks add different tokens ({listed}); set the same task.entity_marking for all of them"
        )
