"""The stages before a fine-tuning: what each is made from, and its folder in the store.

All of them are known before the first is trained: a stage depends on its settings, its data and the stage before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warmstart import tasks
from warmstart.data import table
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.records import metrics as metrics_record
from warmstart.evaluation.records import training as training_record
from warmstart.evaluation.records.files import LARGEST, read_record
from warmstart.evaluation.records.training import MultitaskTrainingRecord, StageRecord, TrainingRecord
from warmstart.evaluation.run import RunFolder
from warmstart.pipeline import stage_store as store
from warmstart.pipeline.distil import check_vectors, distil_identity
from warmstart.pipeline.fingerprint import fingerprint, flatten, settings
from warmstart.pipeline.multitask_recipes import OWN, TRAINED, task_recipes
from warmstart.pipeline.prepare import Parts, Rows, read_rows
from warmstart.pipeline.stage_store import Identity
from warmstart.recipe import (
    MEMORY,
    WITHIN,
    DataOptions,
    DistilOptions,
    MultitaskOptions,
    PretrainOptions,
    Recipe,
    SplitOptions,
    TaskChoice,
    TrainingOptions,
    WindowOptions,
)
from warmstart.runtime.progress import Progress
from warmstart.storage.json_files import read_object


@dataclass(frozen=True)
class StageTexts:
    """The texts of some columns of tables, one after the other; each iteration starts from the first."""

    tables: Sequence[tuple[Table, tuple[str, ...]]]

    def __iter__(self) -> Iterator[str]:
        # The same text in several columns or rows comes each time, as it does in training.
        for rows, names in self.tables:
            for arrays in rows.arrays(names):
                for values in zip(*(array.to_pylist() for array in arrays), strict=True):
                    for value in values:
                        yield from [value] if isinstance(value, str) else value or []


@dataclass(frozen=True)
class EarlierStage:
    """A stage before the fine-tuning."""

    name: str
    """pretrain, multitask, distil or scratch."""
    folder: Path
    """Its folder in the store."""
    identity: Identity
    """All that affects its result, by dotted name."""
    recipe: Recipe | None = None
    """What is trained; its model is that of the stage before. None where nothing is, or several tasks are."""
    texts: StageTexts | None = None
    """The raw text that it is trained on."""
    tasks: Mapping[str, Recipe] = field(default_factory=dict)
    """Of a multi-task stage, the recipe of each task by its name."""
    options: MultitaskOptions | None = None
    """And how they are trained."""
    distil: DistilOptions | None = None
    """Of a stage distil, who answers which texts; it gives no model."""

    @property
    def finished(self) -> bool:
        """Whether it is in the store, and complete."""
        return store.is_finished(self.folder)

    @property
    def model(self) -> Path:
        """The folder that the next stage starts from: of its encoder, or of the task's own model with its head."""
        return self.folder / ("model" if self.options is None or not self.options.keep_head else f"heads/{OWN}")

    @property
    def rows(self) -> Rows:
        """Its texts as training rows; none where it has no raw text."""
        return {"train": ({"text": text} for text in self.texts or ())}

    def record(self) -> StageRecord:
        """What a run records of a finished stage: its folder in the store, its metrics and its training."""
        measured, trained = self.folder / metrics_record.FILE, self.training_folder / training_record.FILE
        record: TrainingRecord | MultitaskTrainingRecord | None = None
        if trained.is_file():
            kind: type[TrainingRecord | MultitaskTrainingRecord]
            kind = MultitaskTrainingRecord if self.options else TrainingRecord
            record = read_record(kind, trained)
        numbers = read_object(measured, RunError, LARGEST) if measured.is_file() else None
        return StageRecord(self.folder.name, numbers, record)

    @property
    def training_folder(self) -> Path:
        """The folder that records its training."""
        return self.folder / (TRAINED if self.options else RunFolder.FINETUNE)


def stages_before(recipe: Recipe, parts: Parts, cache: Path, progress: Progress) -> list[EarlierStage]:
    """The stages of a recipe before its fine-tuning, in order, each with its folder in the store.

    Args:
        parts: The recipe's own rows.
        cache: Where files are stored as Arrow, and the store of stages.
    """
    stages: list[EarlierStage] = []
    if not recipe.stages and not recipe.from_scratch:
        return stages
    schema = tasks.schema_of(recipe.task.name, recipe.task.options)
    model = recipe.model
    start: Identity = {"model": "" if recipe.from_scratch else fingerprint(recipe.model)}
    if recipe.from_scratch:
        pretrain = next((options.pretrain for options in recipe.stages if options.pretrain), PretrainOptions())
        texts, sources = _texts(pretrain, parts, schema, cache, progress)
        shape = flatten(recipe.from_scratch.model_dump(mode="json"), "from_scratch.")
        identity = {**dict(shape), "seed": recipe.seed, **sources}
        stages.append(EarlierStage("scratch", *_stored("scratch", identity, cache), texts=texts))
    recipe = with_reference(recipe, stages)
    for options in recipe.stages:
        if last := last_model(stages):
            model, start = str(last.model), {"model": last.folder.name}
        if options.pretrain is not None:
            texts, sources = _texts(options.pretrain, parts, schema, cache, progress)
            made = _pretrain(options.pretrain, recipe, model)
            stored = _stored(options.name, {**settings(made), **start, **sources}, cache)
            stages.append(EarlierStage(options.name, *stored, recipe=made, texts=texts))
        if options.multitask is not None:
            recipes, identity = _tasks(recipe.alone(model), options.multitask, parts, cache, progress)
            stored = _stored(options.name, {**identity, **start}, cache)
            stages.append(EarlierStage(options.name, *stored, tasks=recipes, options=options.multitask))
        if options.distil is not None:
            check_vectors(options.distil, recipe, parts)
            stored = _stored(options.name, distil_identity(options.distil, recipe), cache)
            stages.append(EarlierStage(options.name, *stored, distil=options.distil))
    return stages


def last_model(stages: Sequence[EarlierStage]) -> EarlierStage | None:
    """The last stage that gives a model; None where the recipe's own is still what comes next."""
    return next((stage for stage in reversed(stages) if stage.distil is None), None)


def with_reference(recipe: Recipe, stages: Sequence[EarlierStage]) -> Recipe:
    """The same recipe, in which forgetting is measured against the encoder that the first stage starts from."""
    if recipe.forgetting is None or recipe.forgetting.reference:
        return recipe
    start = recipe.model or str(stages[0].model)
    return recipe.model_copy(update={"forgetting": recipe.forgetting.model_copy(update={"reference": start})})


def finetuning_identity(recipe: Recipe, parts: Parts, last: EarlierStage) -> Identity:
    """All that affects the result of the fine-tuning after the stages, by dotted name."""
    sources = {f"data.{name}": part.fingerprint for name, part in parts.tables.items()}
    return {**settings(recipe), **sources, **store.versions(), "model": last.folder.name}


def _stored(name: str, identity: Identity, cache: Path) -> tuple[Path, Identity]:
    """The folder of a stage in the store, and its identity with the versions it depends on."""
    complete = {**identity, **store.versions()}
    return store.stage_folder(cache / "stages", name, complete), complete


def _tasks(
    recipe: Recipe, options: MultitaskOptions, parts: Parts, cache: Path, progress: Progress
) -> tuple[dict[str, Recipe], Identity]:
    """The recipes of the tasks that are trained together, by name, and all that affects the result."""
    recipes = task_recipes(recipe, options, Path())
    identity = dict(flatten(options.model_dump(mode="json", exclude={"others"}), "multitask."))
    for name, task in recipes.items():
        own = parts if name == OWN else read_rows(task, cache, progress)
        identity |= {f"{name}.{key}": value for key, value in settings(task).items() if _is_of_the_task(key)}
        identity |= {f"{name}.data.{part}": rows.fingerprint for part, rows in own.tables.items()}
    return recipes, identity


def _is_of_the_task(key: str) -> bool:
    """Whether a setting of one of several tasks counts.

    How to train is decided for all of them; how rows are split is in the fingerprints of the parts.
    """
    return not key.startswith(("recipe.training.", "recipe.seed", "recipe.trainer", "recipe.data.split."))


def _pretrain(options: PretrainOptions, recipe: Recipe, model: str) -> Recipe:
    """The recipe of a stage that is trained on raw text."""
    training: TrainingOptions = (
        options.training if options.steps is None else options.training.model_copy(update={"max_steps": options.steps})
    )
    # NT-ASGD needs rows to watch, which the loss is not measured on in the end.
    dev = options.hold_out if training.optimizer == "nt-asgd" else 0.0
    return Recipe(
        model=model,
        task=TaskChoice.model_validate({"name": "masked", "objective": options.objective, **options.task}),
        data=DataOptions(train=MEMORY, split=SplitOptions(test=options.hold_out, dev=dev)),
        window=WindowOptions(max_tokens=options.max_tokens),
        layers=options.layers,
        training=training,
        checkpoints=recipe.checkpoints,
        seed=options.seed,
        forgetting=recipe.forgetting,
        trainer=recipe.trainer,
    )


def _texts(
    options: PretrainOptions, parts: Parts, schema: Schema, cache: Path, progress: Progress
) -> tuple[StageTexts, Identity]:
    """The texts of a pre-training, and the fingerprint of each source."""
    tables: list[tuple[Table, tuple[str, ...]]] = []
    sources: Identity = {}
    for number, file in enumerate(options.files):
        if file == WITHIN:
            train = parts.tables["train"]
            kinds = {column.name for column in schema if column.kind in ("text", "texts") and not column.answer}
            names = tuple(name for name in train.rows.column_names if name in kinds)
            tables += [(train, names)] if names else []
            sources[f"data.{number}"] = f"{train.fingerprint} {' '.join(names)}"
            continue
        reading = DataOptions(train=file).reading("train")
        assert reading is not None
        rows = table.load(Source(**reading), tasks.schema_of("masked", {}), cache, Findings(), progress=progress)
        tables.append((rows, ("text",)))
        sources[f"data.{number}"] = rows.fingerprint
    if not tables:
        raise RecipeError(
            "pretrain.corpus: found within-task, but the rows of this task hold no text; name files instead"
        )
    return StageTexts(tables), sources
