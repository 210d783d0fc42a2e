"""The recipe: which model, on what data, trained how. A typed file, read from YAML; never imports torch.

Each field's meaning is the text under it, and nowhere else: `--help`, the JSON Schema and the reference page
are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from warmstart.errors import RecipeError, nearest
from warmstart.options import Options, meaning
from warmstart.recipe.fields import Checkpoints, Data, File, Head, Layers, TaskChoice, Training, Window
from warmstart.recipe.forgetting import Forgetting
from warmstart.recipe.stages import WITHIN, Corpus, FromScratch, Stage
from warmstart.storage.yaml_files import read_yaml

SHIPPED = "recipes:"
"""Stands before the name of a recipe that comes with warmstart, which says all but the model and the data."""
MEMORY = "(rows in memory)"
"""Stands for a file in the recipe of a run whose rows were handed over in Python."""
FILES = ("train", "dev", "test", "queries", "documents")
"""Fields of the data that name files."""


class Recipe(Options):
    """Which model, on what data, trained how; only what differs from the defaults need be said."""

    model: str = ""
    """The pretrained encoder: a folder, or a name on the Hugging Face Hub."""
    from_scratch: FromScratch | None = None
    """Instead of `model`: an encoder with random weights and a tokenizer of its own."""
    task: TaskChoice = TaskChoice()
    """What is learned: a name, or a mapping with `name` and the task's own options."""
    data: Data
    """Where the rows are and how they are read."""
    window: Window = Window()
    """Which tokens of a text the encoder sees."""
    layers: Layers = Layers()
    """Which layers are trained, when, at which learning rate, and which are re-initialized."""
    head: Head = Head()
    """What is put on top of the encoder, and what it reads."""
    training: Training = Training()
    """How the model is trained."""
    stages: list[Stage] = []
    """Stages before the fine-tuning, in order: each starts from the encoder that the one before it left."""
    reuse_stages: bool = True
    """Whether a stage that any run has finished is reused instead of trained again."""
    checkpoints: Checkpoints = Checkpoints()
    """When a training saves a checkpoint, so that it can resume after a kill."""
    seed: int = 0
    """Seed of everything random: the split, the initial weights of the head, the order of rows, dropout."""
    init_seed: int | None = None
    """Seed of the initial weights of what is not pretrained: the head, and re-initialized blocks. None: `seed`."""
    seeds: Annotated[int, Field(ge=1)] | None = None
    """Train this many times, with `seed` and the seeds after it, on the same rows. None: once."""
    select: Literal["best", "average", "ensemble"] = "best"
    """What becomes of the models of several seeds: the `best` on dev rows is kept (without dev rows the first, since
    test rows may not select), the `average` of their weights, or all as an `ensemble` whose answers are averaged."""
    baseline: Literal["plain"] | None = None
    """Train `plain` fine-tuning beside it, on the same rows with the same seeds, and compare. None: no baseline."""
    ablate: list[str] = []
    """Fields to ablate, as `[layers.lr_decay, window]`: each is added to plain fine-tuning alone, and removed from the
    full recipe, with the same seeds."""
    forgetting: Forgetting | None = None
    """What the encoder still knows of general text, before, during and after training. None: not measured."""
    trainer: dict[str, Any] = {}
    """Passed on to `transformers.TrainingArguments`; what the fields above say cannot be said here."""

    @field_validator("task", mode="before")
    @classmethod
    def _a_name_is_enough(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _an_encoder(self) -> Self:
        if not self.model and self.from_scratch is None:
            raise ValueError(f"model is missing; it says: {meaning(Recipe, 'model')}")
        if self.model and self.from_scratch is not None:
            raise ValueError("model and from_scratch both say what to start from; drop one")
        return self

    @model_validator(mode="after")
    def _a_frozen_encoder_gives_one_layer(self) -> Self:
        if self.layers.freeze == "encoder" and self.head.layers == "scalar-mix":
            raise ValueError(
                "layers.freeze: encoder caches one layer, or several joined, and scalar-mix is learned; "
                "choose another head.layers"
            )
        return self

    def alone(self, model: str) -> Self:
        """The same recipe without the stages before it, starting from a model."""
        return self.model_copy(update={"model": model, "stages": [], "from_scratch": None})

    @property
    def repeated(self) -> bool:
        """Whether it asks for several trainings: seeds, a baseline or an ablation."""
        return bool(self.seeds or self.baseline or self.ablate)

    def yaml(self) -> str:
        """The complete recipe, defaults included, as YAML."""
        plain = self.model_dump(mode="json")
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def load_recipe(path: str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe from a YAML file; paths in it are taken from the recipe's own folder.

    Args:
        path: The file; or `recipes:NAME` for one that comes with warmstart.
        changes: Dotted keys and values that replace what the file says.
    """
    name = str(path)
    own = Path(path).parent
    if name.startswith(SHIPPED):
        path, own = _shipped(name), Path()
    values, lines = read_yaml(Path(path))
    for key, value in (changes or {}).items():
        put(values, key, value)
    return recipe_of(values, name, lines, own)


def recipe_of(values: Mapping[str, Any], where: str, lines: Mapping[str, int], folder: Path) -> Recipe:
    """Build a recipe from the values of a file; paths in it are taken from a folder."""
    return _from(Recipe.check(values, where, lines), folder)


def shipped() -> dict[str, Path]:
    """The recipes that come with warmstart, by name; found by scanning."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "shipped").glob("*.yaml"))}


def _shipped(name: str) -> Path:
    found, known = name.removeprefix(SHIPPED), shipped()
    if found not in known:
        raise RecipeError(f"{name}: no recipe of that name comes with warmstart; {nearest(found, known)}")
    return known[found]


def make_recipe(values: Mapping[str, Any], where: str = "options") -> Recipe:
    """Build a recipe from dotted keys and values; paths in it are taken from the current folder."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        put(nested, key, value)
    return Recipe.check(nested, where)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys and values: what `put` would make them of."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


def put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in nested mappings: `put(v, "training.learning_rate", 1e-4)`."""
    *parents, last = key.split(".")
    for parent in parents:
        below = values.get(parent)
        if isinstance(below, str) and parent == "task":
            below = {"name": below}
        elif isinstance(below, str | list) and parent in FILES:
            below = {"file": below}
        elif below is None:
            below = {}
        elif not isinstance(below, dict):
            raise RecipeError(f"{key}: {parent} holds {below!r}, which has nothing below it to set")
        values[parent] = below = dict(below)
        values = below
    if isinstance(value, dict) and isinstance(values.get(last), dict):
        value = {**values[last], **value}
    values[last] = value


def absolute(recipe: Recipe) -> Recipe:
    """The same recipe with its paths made absolute, so that it means the same from anywhere."""
    return _from(recipe, Path.cwd())


def _from(recipe: Recipe, folder: Path) -> Recipe:
    """The same recipe with its paths taken from a folder."""
    data = recipe.data
    parts = {part: _part_from(getattr(data, part), folder) for part in FILES}
    model = str(folder / recipe.model) if recipe.model and (folder / recipe.model).is_dir() else recipe.model
    stages = [stage.model_copy(update=_stage_from(stage, folder)) for stage in recipe.stages]
    changed = {"model": model, "data": data.model_copy(update=parts), "stages": stages}
    if recipe.forgetting is not None:
        said = recipe.forgetting
        reference = (
            str(folder / said.reference) if said.reference and (folder / said.reference).is_dir() else said.reference
        )
        changed["forgetting"] = said.model_copy(update={"text": _part_from(said.text, folder), "reference": reference})
    return recipe.model_copy(update=changed)


def _stage_from(stage: Stage, folder: Path) -> dict[str, Any]:
    """What changes in a stage when its paths are taken from a folder."""
    if stage.multitask is not None:
        files = [str(folder / file) for file in stage.multitask.others]
        return {"multitask": stage.multitask.model_copy(update={"others": files})}
    if stage.pretrain is None or isinstance(stage.pretrain.corpus, str):
        return {}
    corpus: Corpus = {
        name: [one if one == WITHIN else _part_from(one, folder) for one in files]
        for name, files in stage.pretrain.corpus.items()
    }
    return {"pretrain": stage.pretrain.model_copy(update={"corpus": corpus})}


def _part_from(part: Any, folder: Path) -> Any:
    if part is None:
        return None
    if isinstance(part, File):
        inner = {name: _part_from(getattr(part, name), folder) for name in ("file", "queries", "documents")}
        return part.model_copy(update=inner)
    if isinstance(part, list):
        return [_part_from(name, folder) for name in part]
    return part if part.startswith("hub:") or part == MEMORY else str(folder / part)
