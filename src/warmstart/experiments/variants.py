"""Which trainings a recipe with seeds, a baseline or an ablation asks for: its variants, each as changed fields."""

from __future__ import annotations

from collections.abc import Mapping

from warmstart import tasks
from warmstart.errors import RecipeError, nearest
from warmstart.options import Value, Values, name_here
from warmstart.recipe import HeadOptions, LayerOptions, Recipe, TrainingOptions, WindowOptions

OWN, BASELINE = "recipe", "plain"
"""The variants that are the recipe as it is, and plain fine-tuning."""
BACKWARD = "backward"
"""The variant that is the recipe with a model that reads backward, beside one that reads forward."""
PLAIN: Values = {
    "training.learning_rate": 5e-5,
    "training.epochs": 3,
    "training.min_steps": None,
    "training.batch_size": 32,
    "training.lr_schedule": "linear",
    "training.warmup": 0.1,
    "window.method": "head",
    "training.batching": "by-length",
    "training.loss": "task",
    "head.init": "random",
    "head.refit": False,
}
"""What a script around `transformers.Trainer` does by default, except that batches are grouped by length: that saves
time, and no change in accuracy could be measured."""
COST = ("window.max_tokens", "training.precision", "training.max_steps")
"""Fields that decide what a training costs; a baseline has those of the recipe."""
SINGLE: Values = {"seeds": None, "select": "best", "baseline": None, "ablate": []}
"""Fields that make a recipe one training."""


def plain() -> Values:
    """Plain fine-tuning: the value of every field that decides how to train, by dotted key."""
    values = {
        f"{part}.{name}": value
        for part, options in {
            "window": WindowOptions(),
            "layers": LayerOptions(),
            "head": HeadOptions(),
            "training": TrainingOptions(),
        }.items()
        for name, value in options.model_dump(mode="json").items()
    }
    return {**{key: value for key, value in values.items() if key not in (*COST, "head.reuse")}, **PLAIN, "stages": []}


def variants_of(recipe: Recipe) -> dict[str, Values]:
    """Each variant's changes to the recipe: none, plain fine-tuning, and with or without each ablated field."""
    common = dict(SINGLE)
    if recipe.data.split.seed is None:  # all seeds are measured on the same rows
        common["data.split.seed"] = recipe.seed
    if recipe.reads_both_ways:
        common["from_scratch.direction"] = "forward"
    variants: dict[str, Values] = {OWN: dict(common)}
    if recipe.reads_both_ways:
        variants[BACKWARD] = {**common, "from_scratch.direction": "backward"}
    if recipe.select == "average" and recipe.init_seed is None:
        variants[OWN]["init_seed"] = recipe.seed  # only weights with the same start can be averaged
    if not recipe.baseline and not recipe.ablate:
        return variants
    base, values = plain(), recipe.model_dump(mode="json")
    variants[BASELINE] = {**common, **base}
    for piece in recipe.ablate:
        fields = _fields(piece, base)
        own = {key: _value(values, key) for key in fields}
        if own == fields:
            listed = _listed(fields)
            raise RecipeError(f"ablate: {piece} is as in plain fine-tuning ({listed}); leave it out, or change it")
        variants[f"only {piece}"] = {**common, **base, **own}
        variants[f"without {piece}"] = {**variants[OWN], **fields}
    return variants


def references(variants: Mapping[str, object]) -> dict[str, str]:
    """The reference that each variant is compared with."""
    reference = {OWN: BASELINE} if BASELINE in variants else {}
    for name in variants:
        if name.startswith("only "):
            reference[name] = BASELINE
        elif name.startswith("without "):
            reference[name] = OWN
    return reference


def check_repeatable(recipe: Recipe) -> None:
    """Refuse what could not be measured or selected, before anything is trained."""
    data = recipe.data
    if data.test is None and not data.split.test and data.dev is None and not data.split.dev:
        raise RecipeError("seeds: there is nothing to measure on; set data.test, or data.split.test: 0.1")
    if recipe.select != "best" and not recipe.seeds:
        raise RecipeError(f"select: found {recipe.select}, but there is one seed; set seeds, as seeds: 5")
    if recipe.select == "average" and recipe.reads_both_ways:
        raise RecipeError(
            "select: found average, but from_scratch.direction: both trains models that read in different directions, "
            "whose weights have no mean; set select: ensemble"
        )
    if selected_by(recipe) == "ensemble":
        options = tasks.options_of(recipe.task.name, recipe.task.options)
        if tasks.find(recipe.task.name).ensemble_averaging(options) is None:
            mixable = [
                name for name in tasks.names() if tasks.find(name).ensemble_averaging(tasks.options_of(name, {}))
            ]
            key, instead = "select", "select: best or select: average"
            if recipe.reads_both_ways:
                key, instead = "from_scratch.direction", "direction: forward"
            raise RecipeError(
                f"{key}: answers of {recipe.task.name} with these options cannot be averaged, those of "
                f"{', '.join(mixable)} can; set {instead}"
            )


def selected_by(recipe: Recipe) -> str:
    """How one model is made of several: two directions always make an ensemble."""
    return "ensemble" if recipe.reads_both_ways else recipe.select


def _fields(piece: str, base: Mapping[str, Value]) -> Values:
    """The plain values of a field, or of all fields of a section."""
    fields = {key: value for key, value in base.items() if key == piece or key.startswith(f"{piece}.")}
    if not fields:
        if here := name_here(Recipe, piece.split(".")):
            raise RecipeError(f"ablate: {piece} is called {here.partition(': ')[0]} here")
        known = {*base, "window", "layers", "head", "training"}
        raise RecipeError(
            f"ablate: {piece} is not a field of window, layers, head, training or stages; {nearest(piece, known)}"
        )
    return fields


def _value(values: Mapping[str, Value], key: str) -> Value:
    for name in key.split("."):
        values = values[name]
    return values


def _listed(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in list(values.items())[:3])
