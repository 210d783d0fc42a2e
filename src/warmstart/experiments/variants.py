"""Which trainings a recipe with seeds, a baseline or an ablation asks for: its variants, each as changed fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warmstart import tasks
from warmstart.errors import RecipeError, nearest
from warmstart.recipe import Head, Layers, Recipe, Training, Window

ASKED, BASELINE = "asked", "plain"
PLAIN: dict[str, Any] = {
    "training.learning_rate": 5e-5,
    "training.epochs": 3,
    "training.min_steps": None,
    "training.batch_size": 32,
    "training.lr_schedule": "linear",
    "training.warmup": 0.1,
    "training.batching": "by-length",
}
"""What a script around `transformers.Trainer` does by default, but that rows of like length share a batch: it saves
time, and changes no accuracy that could be shown."""
ROOM = ("window.max_tokens", "training.precision", "training.max_steps")
"""Fields that say what a training may cost; a baseline has them as asked."""
SINGLE: dict[str, Any] = {"seeds": None, "select": "best", "baseline": None, "ablate": []}
"""One training, whatever else is asked for."""


def plain() -> dict[str, Any]:
    """Every field of the craft at plain fine-tuning's value, by dotted key."""
    values = {
        f"{part}.{name}": value
        for part, options in {"window": Window(), "layers": Layers(), "head": Head(), "training": Training()}.items()
        for name, value in options.model_dump(mode="json").items()
    }
    return {**{key: value for key, value in values.items() if key not in (*ROOM, "head.reuse")}, **PLAIN, "stages": []}


def variants_of(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Each variant's changes to the recipe: as asked, plain fine-tuning, and with or without each ablated field."""
    common = dict(SINGLE)
    if recipe.data.split.seed is None:  # all seeds are measured on the same rows
        common["data.split.seed"] = recipe.seed
    found: dict[str, dict[str, Any]] = {ASKED: dict(common)}
    if recipe.select == "average" and recipe.init_seed is None:
        found[ASKED]["init_seed"] = recipe.seed  # weights have a mean only where they have one start
    if not recipe.baseline and not recipe.ablate:
        return found
    base, asked = plain(), recipe.model_dump(mode="json")
    found[BASELINE] = {**common, **base}
    for piece in recipe.ablate:
        mine = _fields(piece, base)
        own = {key: _value(asked, key) for key in mine}
        if own == mine:
            raise RecipeError(f"ablate: {piece} is as in plain fine-tuning ({_told(mine)}); leave it out, or change it")
        found[f"only {piece}"] = {**common, **base, **own}
        found[f"without {piece}"] = {**found[ASKED], **mine}
    return found


def references(variants: Mapping[str, Any]) -> dict[str, str]:
    """What each variant is compared with: its own reference, by name."""
    found = {ASKED: BASELINE} if BASELINE in variants else {}
    for name in variants:
        if name.startswith("only "):
            found[name] = BASELINE
        elif name.startswith("without "):
            found[name] = ASKED
    return found


def check(recipe: Recipe) -> None:
    """Refuse what could not be measured or put together, before anything is trained."""
    data = recipe.data
    if data.test is None and not data.split.test and data.dev is None and not data.split.dev:
        raise RecipeError("seeds: there is nothing to measure on; say data.test, or data.split.test: 0.1")
    if recipe.select != "best" and not recipe.seeds:
        raise RecipeError(f"select: found {recipe.select}, but there is one seed; say how many, as seeds: 5")
    if recipe.select == "ensemble":
        options = tasks.options_of(recipe.task.name, recipe.task.options)
        if tasks.find(recipe.task.name).mixing(options) is None:
            can = "classify, score, choose, relate, span, and tag without a CRF"
            raise RecipeError(
                f"select: answers of {recipe.task.name} as asked for cannot be averaged, those of {can} can; "
                "set select: best or select: average"
            )


def _fields(piece: str, base: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of a field, or of all fields of a part."""
    found = {key: value for key, value in base.items() if key == piece or key.startswith(f"{piece}.")}
    if not found:
        known = {*base, "window", "layers", "head", "training"}
        raise RecipeError(
            f"ablate: {piece} is not a field of window, layers, head, training or stages; {nearest(piece, known)}"
        )
    return found


def _value(values: Mapping[str, Any], key: str) -> Any:
    for name in key.split("."):
        values = values[name]
    return values


def _told(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in list(values.items())[:3])
