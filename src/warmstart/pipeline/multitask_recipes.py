"""Before several tasks are learned at once: the recipes that take part, read, opened and found to fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.errors import RecipeError, nearest
from warmstart.pipeline.finetune import Ready, make_ready
from warmstart.pipeline.fingerprint import together
from warmstart.pipeline.leakage import without_overlap
from warmstart.pipeline.prepare import Parts, Rows, read_rows
from warmstart.recipe import Head, Layers, Recipe, load_recipe
from warmstart.recipe.multitask import LAYERS_TOGETHER, Multitask
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress

OWN = "own"
"""The name of a recipe's own task among those that are learned together."""


def taking_part(recipe: Recipe, options: Multitask, folder: Path) -> dict[str, Recipe]:
    """The recipes of the tasks that are learned together, by name, all with the recipe's own model.

    Args:
        folder: The recipe's own folder, from which the paths of the others are taken.
    """
    found = {OWN: recipe.model_copy(update={"forgetting": None})} if options.include_own else {}
    for file in options.others:
        name = Path(file).stem
        if name in found:
            raise RecipeError(f"multitask.with: two tasks would go by the name {name}; rename {file}")
        found[name] = load_recipe(folder / file).model_copy(update={"model": recipe.model, "forgetting": None})
    return found


@dataclass(frozen=True)
class Together:
    """All tasks of a stage, opened and found to fit together."""

    ready: Mapping[str, Ready]
    parts: Mapping[str, Parts]
    options: Multitask
    seed: int
    identity: dict[str, Any]


def prepare(
    recipes: Mapping[str, Recipe],
    options: Multitask,
    cache: Path,
    work: Path,
    seed: int,
    trainer: Mapping[str, Any],
    rows: Mapping[str, Rows],
    progress: Progress,
) -> Together:
    """Read the rows of every task and open its model, so that what is wrong is said before anything is written."""
    _check(recipes, options)
    parts = {}
    for name, recipe in recipes.items():
        store = cache if name not in rows else work / f"rows-{processes.index()}" / name
        parts[name] = read_rows(recipe, store, progress, rows.get(name))
    parts = without_overlap(recipes, parts)
    ready = {}
    for number, (name, recipe) in enumerate(recipes.items()):
        own = work / name
        own.mkdir(parents=True, exist_ok=True)
        # Another seed for each, so that heads of one size start from different numbers.
        asked = _asked(recipe, options, seed + number, trainer)
        ready[name] = make_ready(asked, parts[name], own, progress)
    _check_tokens(ready)
    identity = together(_said(options, seed, trainer), {name: one.identity for name, one in ready.items()})
    return Together(ready, parts, options, seed, identity)


def _asked(recipe: Recipe, options: Multitask, seed: int, trainer: Mapping[str, Any]) -> Recipe:
    """A task's recipe with the stage's word on how to train; its own layers say only how the head is made."""
    own = {name: getattr(recipe.head, name) for name in ("type", "layers", "pooling", "init", "reuse")}
    head = Head(**own, learning_rate=options.head.learning_rate)
    layers = Layers(**{name: getattr(options.layers, name) for name in LAYERS_TOGETHER})
    update = {"layers": layers, "head": head, "training": options.training, "seed": seed, "trainer": dict(trainer)}
    return recipe.model_copy(update=update)


def _said(options: Multitask, seed: int, trainer: Mapping[str, Any]) -> dict[str, Any]:
    """What is said for all tasks, as plain values."""
    plain = options.model_dump(mode="json", exclude={"others", "include_own"})
    layers = {name: plain["layers"][name] for name in LAYERS_TOGETHER}
    head = {"learning_rate": plain["head"]["learning_rate"]}
    return {**plain, "layers": layers, "head": head, "seed": seed, "trainer": dict(trainer)}


def _check(recipes: Mapping[str, Recipe], options: Multitask) -> None:
    if len({recipe.model for recipe in recipes.values()}) != 1:
        found = ", ".join(f"{name}: {recipe.model}" for name, recipe in recipes.items())
        raise RecipeError(f"multitask: found several models ({found}), and one encoder is shared; give all the same")
    for name in recipes:
        if Path(name).name != name or name.startswith("."):
            raise RecipeError(f"multitask: found {name!r} for a task, and a folder is named by it; rename it")
    for name in options.loss_weights if isinstance(options.loss_weights, dict) else ():
        if name not in recipes:
            raise RecipeError(f"multitask.loss_weights: {name!r} is not a task here; {nearest(name, recipes)}")


def _check_tokens(ready: Mapping[str, Ready]) -> None:
    """Refuse tasks whose own tokens differ: each would give the same embedding another meaning."""
    added = {name: one.task.new_tokens for name, one in ready.items() if one.task.new_tokens}
    if len(set(added.values())) > 1:
        told = "; ".join(f"{name}: {' '.join(tokens)}" for name, tokens in added.items())
        raise RecipeError(f"multitask: tasks add different tokens ({told}); say the same task.show for all of them")
