"""The recipe: which model, on what data, trained how. A typed file, read from YAML; never imports torch.

Each field's meaning is the text under it, and nowhere else: `--help`, the JSON Schema and the reference page
are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from warmstart.errors import RecipeError, nearest
from warmstart.options import Options, Value, Values, missing, name_here, unknown
from warmstart.recipe.fields import (
    CheckpointOptions,
    DataOptions,
    FileOptions,
    HeadOptions,
    TaskChoice,
    WindowOptions,
)
from warmstart.recipe.forgetting import ForgettingOptions
from warmstart.recipe.layers import LayerOptions
from warmstart.recipe.stages import WITHIN, Corpus, FromScratchOptions, StageOptions
from warmstart.recipe.synonyms import ELSEWHERE, RECIPE
from warmstart.recipe.training import TrainingOptions
from warmstart.storage.yaml_files import read_yaml

SHIPPED = "recipes:"
"""The prefix of a recipe that comes with warmstart, which has everything but the model and the data."""
MEMORY = "(rows in memory)"
"""In place of a file, in the recipe of a run whose rows were passed in Python."""
CHOOSE = "auto"
"""As `model`: the best of `models`."""
LINEAR_PROBE: Mapping[str, Value] = {"layers.freeze": "encoder", "head.init": "linear-probe"}
"""Fields by which nothing is trained: a linear head is solved on the frozen encoder."""
FILES = ("train", "dev", "test", "add", "queries", "documents")
"""Fields of the data that are files."""


class Recipe(Options):
    """Which model to train, on what data, and how; a recipe file sets only what differs from the defaults."""

    synonyms: ClassVar[Mapping[str, str]] = RECIPE
    elsewhere: ClassVar[Mapping[str, str]] = ELSEWHERE

    model: str = ""
    """The pretrained encoder: a folder, or a name on the Hugging Face Hub; auto: the best of `models`."""
    models: list[str] = []
    """With `model: auto`, the encoders to choose from: the one whose linear probe scores best in a cross-validation on
    the training rows. If others are within its interval and it within theirs, the fastest of them is taken, and of
    several that are about as fast the smallest. For `classify` and `score`."""
    from_scratch: FromScratchOptions | None = None
    """Instead of `model`: an encoder with random weights and a tokenizer of its own."""
    task: TaskChoice = TaskChoice()
    """The task: its name, or a mapping with `name` and the task's own options."""
    data: DataOptions
    """The data: where the rows are and how they are read."""
    window: WindowOptions = WindowOptions()
    """Which tokens of a text the encoder sees."""
    layers: LayerOptions = LayerOptions()
    """Which layers are trained, when, at which learning rate, and which are re-initialized."""
    head: HeadOptions = HeadOptions()
    """The head on top of the encoder, and what it reads."""
    training: TrainingOptions = TrainingOptions()
    """How the model is trained."""
    stages: list[StageOptions] = []
    """Stages before fine-tuning, in order; each continues with the encoder of the one before."""
    reuse_stages: bool = True
    """Whether to reuse a stage that an earlier run has finished, instead of training it again."""
    checkpoints: CheckpointOptions = CheckpointOptions()
    """When checkpoints are saved, so that training can resume after a crash."""
    seed: int = 0
    """The random seed: of the split, the initial weights of the head, the order of rows, and dropout."""
    init_seed: int | None = None
    """Seed of the weights that are not pretrained: those of the head and of re-initialized blocks. Default: `seed`."""
    seeds: Annotated[int, Field(ge=1)] | None = None
    """How many times to train, with `seed` and the seeds after it, on the same rows. Default: once."""
    select: Literal["best", "average", "ensemble"] = "best"
    """Which model to keep if there are several seeds: the `best` on the dev rows (without dev rows the first, since
    test rows must not be used for selection), the `average` of their weights, or an `ensemble` of all, whose
    predictions are averaged."""
    baseline: Literal["plain"] | None = None
    """Also train `plain` fine-tuning on the same rows with the same seeds, and compare. Default: no baseline."""
    ablate: list[str] = []
    """Fields to ablate, such as `[layers.lr_decay, window]`: each is added to plain fine-tuning alone, and removed from
    the full recipe, with the same seeds."""
    forgetting: ForgettingOptions | None = None
    """Measures how much the encoder forgets about general text during training. Default: not measured."""
    trainer: Values = {}
    """Passed on to `transformers.TrainingArguments`; arguments that a field of the recipe covers are refused."""

    @classmethod
    def check(cls, values: Mapping[str, Value], where: str, lines: Mapping[str, int] | None = None) -> Self:
        """Build from plain values, as `Options.check`; arguments of the Trainer that a field holds are refused too."""
        trainer = values.get("trainer")
        for name in trainer if isinstance(trainer, dict) else ():
            key = f"trainer.{name}"
            here = name_here(cls, ("trainer", str(name))) or cls.elsewhere.get(str(name), key)
            if here != key:
                at = f"{where}:{lines[key]}" if lines and key in lines else where
                raise RecipeError(f"{at}: {unknown(cls, ('trainer', str(name)))}")
        return super().check(values, where, lines)

    @field_validator("task", mode="before")
    @classmethod
    def _a_name_is_enough(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _an_encoder(self) -> Self:
        if not self.model and self.from_scratch is None:
            raise ValueError(missing(Recipe, "model", "model"))
        if self.model and self.from_scratch is not None:
            raise ValueError("model and from_scratch exclude each other; leave one out")
        if bool(self.models) != (self.model == CHOOSE) or len(set(self.models)) < len(self.models):
            listed = ", ".join(self.models) or "none"
            raise ValueError(
                f"model: found {self.model or 'none'} with models: {listed}; expected one encoder as model, or model: "
                "auto and models: [A, B], all different"
            )
        return self

    @model_validator(mode="after")
    def _a_head_is_kept_for_the_fine_tuning(self) -> Self:
        keeping = [place for place, stage in enumerate(self.stages) if stage.multitask and stage.multitask.keep_head]
        if keeping and not self.head.reuse:
            raise ValueError(
                "head.reuse: found false, but a stage multitask has keep_head: true; leave one of them out"
            )
        if keeping and any(stage.pretrain for stage in self.stages[keeping[0] :]):
            raise ValueError(
                f"stages.{keeping[0]}.multitask.keep_head: found true, but a stage pretrain follows, which has another "
                "head; expected it in the last stage"
            )
        return self

    @model_validator(mode="after")
    def _one_teacher(self) -> Self:
        if sum(stage.distil is not None for stage in self.stages) > 1:
            raise ValueError("stages: found distil twice; expected one teacher, whose run may be an ensemble")
        if self.layers.num_layers is not None and self.head.layers != "last":
            raise ValueError("layers.num_layers removes blocks, and head.layers counts them; leave one of them out")
        return self

    @model_validator(mode="after")
    def _a_frozen_encoder_gives_one_layer(self) -> Self:
        if self.layers.freeze == "encoder" and self.head.layers == "scalar-mix":
            raise ValueError(
                "layers.freeze: encoder caches the features, and head.layers: scalar-mix would train their mix; "
                "choose another head.layers"
            )
        return self

    @model_validator(mode="after")
    def _sharded_weights_have_limits(self) -> Self:
        if self.layers.freeze == "encoder" and self.training.fsdp:
            raise ValueError("training.fsdp: layers.freeze: encoder trains the head alone; leave one of them out")
        if self.is_sharded and self.forgetting is not None:
            raise ValueError("forgetting: it is measured in one process, and fsdp: true shards; leave one of them out")
        return self

    def alone(self, model: str) -> Self:
        """The same recipe without its stages, starting from a model."""
        return self.model_copy(update={"model": model, "stages": [], "from_scratch": None})

    @property
    def repeated(self) -> bool:
        """Whether it asks for several trainings: seeds, a baseline, an ablation or both directions."""
        return bool(self.seeds or self.baseline or self.ablate) or self.reads_both_ways

    @property
    def is_sharded(self) -> bool:
        """Whether weights are sharded over processes, in the fine-tuning or a stage before it."""
        return self.training.fsdp or any(stage.pretrain and stage.pretrain.training.fsdp for stage in self.stages)

    @property
    def reads_both_ways(self) -> bool:
        """Whether two models are trained, one of which reads forward and one backward."""
        return self.from_scratch is not None and self.from_scratch.direction == "both"

    def yaml(self) -> str:
        """The complete recipe, defaults included, as YAML."""
        plain = self.model_dump(mode="json")
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def load_recipe(path: str | Path, changes: Mapping[str, Value] | None = None) -> Recipe:
    """Read a recipe from a YAML file; paths in it are relative to the recipe's folder.

    Args:
        path: The file; or `recipes:NAME` for one that comes with warmstart.
        changes: Dotted keys and values that replace those of the file.
    """
    name = str(path)
    own = Path(path).parent
    if name.startswith(SHIPPED):
        path, own = _shipped(name), Path()
    values, lines = read_yaml(Path(path))
    for key, value in (changes or {}).items():
        put(values, key, value)
    return recipe_of(values, name, lines, own)


def recipe_of(values: Mapping[str, Value], where: str, lines: Mapping[str, int], folder: Path) -> Recipe:
    """Build a recipe from the values of a file; paths in it are relative to a folder."""
    return _from(Recipe.check(values, where, lines), folder)


def shipped() -> dict[str, Path]:
    """The recipes that come with warmstart, by name, as the folder has them."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "shipped").glob("*.yaml"))}


def _shipped(name: str) -> Path:
    short, known = name.removeprefix(SHIPPED), shipped()
    if short not in known:
        raise RecipeError(f"{name}: no recipe of that name comes with warmstart; {nearest(short, known)}")
    return known[short]


def make_recipe(values: Mapping[str, Value], where: str = "options") -> Recipe:
    """Build a recipe from dotted keys and values; paths in it are relative to the current folder."""
    nested: Values = {}
    for key, value in values.items():
        put(nested, key, value)
    return Recipe.check(nested, where)


def flat(values: Mapping[str, Value], prefix: str = "") -> Values:
    """Nested mappings as dotted keys and values, from which `put` makes them again."""
    keys: Values = {}
    for name, value in values.items():
        keys |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return keys


def put(values: Values, key: str, value: Value) -> None:
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
            raise RecipeError(f"{key}: {parent} is {below!r}, which has no fields to set")
        values[parent] = below = dict(below)
        values = below
    if isinstance(value, dict) and isinstance(values.get(last), dict):
        value = {**values[last], **value}
    values[last] = value


def absolute(recipe: Recipe) -> Recipe:
    """The same recipe with its paths made absolute, so that it means the same from anywhere."""
    return _from(recipe, Path.cwd())


def _from(recipe: Recipe, folder: Path) -> Recipe:
    """The same recipe with its relative paths taken from a folder."""
    data = recipe.data
    parts = {part: _part_from(getattr(data, part), folder) for part in FILES}
    model, *models = (_model_from(name, folder) for name in (recipe.model, *recipe.models))
    changed: Values = {"model": model, "models": models, "data": data.model_copy(update=parts)}
    if recipe.forgetting is not None:
        forgetting = recipe.forgetting
        reference = _model_from(forgetting.reference, folder) if forgetting.reference else None
        texts = _part_from(forgetting.text, folder)
        changed["forgetting"] = forgetting.model_copy(update={"text": texts, "reference": reference})
    return stages_from(recipe.model_copy(update=changed), folder)


def stages_from(recipe: Recipe, folder: Path) -> Recipe:
    """The same recipe with the relative paths in its stages taken from a folder."""
    stages = [stage.model_copy(update=_stage_from(stage, folder)) for stage in recipe.stages]
    return recipe.model_copy(update={"stages": stages})


def _model_from(name: str, folder: Path) -> str:
    """A model whose folder is relative to another; a name on the Hub stays."""
    return str(folder / name) if name not in {"", CHOOSE} and (folder / name).is_dir() else name


def _stage_from(stage: StageOptions, folder: Path) -> Values:
    """What changes in a stage when its paths are taken from a folder."""
    if stage.multitask is not None:
        files = [str(folder / file) for file in stage.multitask.others]
        return {"multitask": stage.multitask.model_copy(update={"others": files})}
    if stage.distil is not None:
        teacher, texts = _model_from(stage.distil.teacher, folder), _part_from(stage.distil.texts, folder)
        return {"distil": stage.distil.model_copy(update={"teacher": teacher, "texts": texts})}
    if stage.pretrain is None or isinstance(stage.pretrain.corpus, str):
        return {}
    corpus: Corpus = {
        name: [file if file == WITHIN else _part_from(file, folder) for file in files]
        for name, files in stage.pretrain.corpus.items()
    }
    return {"pretrain": stage.pretrain.model_copy(update={"corpus": corpus})}


def _part_from(part: Value, folder: Path) -> Value:
    if part is None:
        return None
    if isinstance(part, FileOptions):
        inner = {name: _part_from(getattr(part, name), folder) for name in ("file", "queries", "documents")}
        return part.model_copy(update=inner)
    if isinstance(part, list):
        return [_part_from(name, folder) for name in part]
    return part if part.startswith("hub:") or part == MEMORY else str(folder / part)
