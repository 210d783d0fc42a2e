"""The stages before a fine-tuning: what each is made of, and where the store keeps it.

All of them are known before the first is begun: a stage is told by its settings, its data and the stage before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart import tasks
from warmstart.data import table
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.errors import RecipeError, RunError
from warmstart.pipeline import stage_store as store
from warmstart.pipeline.fingerprint import fingerprint, flat, settings
from warmstart.pipeline.multitask_recipes import OWN, taking_part
from warmstart.pipeline.prepare import Parts, Rows, read_rows
from warmstart.recipe import MEMORY, WITHIN, Data, Multitask, Pretrain, Recipe, Split, TaskChoice, Training, Window
from warmstart.runtime.progress import Progress
from warmstart.storage.json_files import MEGABYTE, read_object

LARGEST = 64 * MEGABYTE
"""The largest history of a training that is read."""


@dataclass(frozen=True)
class Texts:
    """The texts of some columns of tables, one after the other, from the first on each time they are asked for."""

    tables: Sequence[tuple[Table, tuple[str, ...]]]

    def __iter__(self) -> Iterator[str]:
        # The same text in several columns or rows comes each time, as it does in training.
        for rows, names in self.tables:
            for arrays in rows.arrays(names):
                for values in zip(*(array.to_pylist() for array in arrays), strict=True):
                    for value in values:
                        yield from [value] if isinstance(value, str) else value or []


@dataclass(frozen=True)
class Stage:
    """A stage before the fine-tuning."""

    name: str
    """pretrain, multitask or scratch."""
    folder: Path
    """Its place in the store."""
    identity: Mapping[str, Any]
    """All that affects its result, by dotted name."""
    recipe: Recipe | None = None
    """What is trained; its model is where the stage before it leaves one. None where nothing is."""
    texts: Texts | None = None
    """The raw text that it learns from."""
    together: Mapping[str, Recipe] = field(default_factory=dict)
    """Of several tasks at once, the recipe of each by its name."""
    options: Multitask | None = None
    """And how they are learned."""

    @property
    def finished(self) -> bool:
        """Whether it is in the store, at its end."""
        return store.is_finished(self.folder)

    @property
    def model(self) -> Path:
        """Where it leaves its encoder."""
        return self.folder / "model"

    @property
    def rows(self) -> Rows:
        """Its texts as rows to learn from, none where it has no raw text."""
        return {"train": ({"text": text} for text in self.texts or ())}

    def told(self) -> dict[str, Any]:
        """What a run keeps of a finished stage: its place in the store, what was measured, what the training did."""
        found: dict[str, Any] = {"store": self.folder.name}
        files = {"metrics": self.folder / "metrics.json", "training": self.trained / "history.json"}
        return found | {name: read_object(path, RunError, LARGEST) for name, path in files.items() if path.is_file()}

    @property
    def trained(self) -> Path:
        """Where it tells what its training did."""
        return self.folder / ("trained" if self.options else "stages/01-finetune")


def stages_before(recipe: Recipe, parts: Parts, cache: Path, progress: Progress) -> list[Stage]:
    """The stages of a recipe before its fine-tuning, in order, each with its place in the store.

    Args:
        parts: The recipe's own rows.
        cache: Where files are kept as Arrow, and the store of stages.
    """
    found: list[Stage] = []
    if not recipe.stages and not recipe.from_scratch:
        return found
    schema = tasks.schema_of(recipe.task.name, recipe.task.options)
    model, told = recipe.model, {"model": "" if recipe.from_scratch else fingerprint(recipe.model)}
    if recipe.from_scratch:
        said = next((one.pretrain for one in recipe.stages if one.pretrain), Pretrain())
        texts, sources = _texts(said, parts, schema, cache, progress)
        identity = {
            **dict(flat(recipe.from_scratch.model_dump(mode="json"), "from_scratch.")),
            "seed": recipe.seed,
            **sources,
        }
        found.append(_stage("scratch", identity, cache, texts=texts))
    recipe = from_the_start(recipe, found)
    for one in recipe.stages:
        if found:
            model, told = str(found[-1].model), {"model": found[-1].folder.name}
        if one.pretrain is not None:
            texts, sources = _texts(one.pretrain, parts, schema, cache, progress)
            made = _pretrain(one.pretrain, recipe, model)
            found.append(_stage(one.name, {**settings(made), **told, **sources}, cache, recipe=made, texts=texts))
        if one.multitask is not None:
            together, identity = _together(recipe.alone(model), one.multitask, parts, cache, progress)
            stage = {"together": together, "options": one.multitask}
            found.append(_stage(one.name, {**identity, **told}, cache, **stage))
    return found


def from_the_start(recipe: Recipe, stages: Sequence[Stage]) -> Recipe:
    """The same recipe, in which what is forgotten is seen from the encoder that the first stage starts from."""
    if recipe.forgetting is None or recipe.forgetting.reference:
        return recipe
    start = recipe.model or str(stages[0].model)
    return recipe.model_copy(update={"forgetting": recipe.forgetting.model_copy(update={"reference": start})})


def key_of(recipe: Recipe, parts: Parts, last: Stage) -> dict[str, Any]:
    """All that affects the result of the fine-tuning after the stages, by dotted name."""
    sources = {f"data.{name}": part.fingerprint for name, part in parts.tables.items()}
    return {**settings(recipe), **sources, **store.versions(), "model": last.folder.name}


def _stage(name: str, identity: Mapping[str, Any], cache: Path, **more: Any) -> Stage:
    whole = {**identity, **store.versions()}
    return Stage(name, store.place(cache / "stages", name, whole), whole, **more)


def _together(
    recipe: Recipe, options: Multitask, parts: Parts, cache: Path, progress: Progress
) -> tuple[dict[str, Recipe], dict[str, Any]]:
    """The recipes of the tasks that are learned together, by name, and what affects the result of it."""
    recipes = taking_part(recipe, options, Path())
    identity = dict(flat(options.model_dump(mode="json", exclude={"others"}), "multitask."))
    for name, one in recipes.items():
        own = parts if name == OWN else read_rows(one, cache, progress)
        identity |= {f"{name}.{key}": value for key, value in settings(one).items() if _is_of_the_task(key)}
        identity |= {f"{name}.data.{part}": rows.fingerprint for part, rows in own.tables.items()}
    return recipes, identity


def _is_of_the_task(key: str) -> bool:
    """Whether a setting of one of several tasks counts: how it is trained is said for all of them."""
    return not key.startswith(("recipe.training.", "recipe.seed", "recipe.trainer"))


def _pretrain(said: Pretrain, recipe: Recipe, model: str) -> Recipe:
    """The recipe of a stage that learns from raw text."""
    training: Training = (
        said.training if said.steps is None else said.training.model_copy(update={"max_steps": said.steps})
    )
    return Recipe(
        model=model,
        task=TaskChoice.model_validate({"name": "masked", "objective": said.objective, **said.task}),
        data=Data(train=MEMORY, split=Split(test=said.hold_out)),
        window=Window(max_tokens=said.max_tokens),
        layers=said.layers,
        training=training,
        checkpoints=recipe.checkpoints,
        seed=said.seed,
        forgetting=recipe.forgetting,
        trainer=recipe.trainer,
    )


def _texts(
    said: Pretrain, parts: Parts, schema: Schema, cache: Path, progress: Progress
) -> tuple[Texts, dict[str, str]]:
    """The texts of a pre-training, and the fingerprint of each place they come from."""
    tables: list[tuple[Table, tuple[str, ...]]] = []
    sources: dict[str, str] = {}
    for number, file in enumerate(said.files):
        if file == WITHIN:
            train = parts.tables["train"]
            kinds = {column.name for column in schema if column.kind in ("text", "texts") and not column.answer}
            names = tuple(name for name in train.rows.column_names if name in kinds)
            tables.append((train, names))
            sources[f"data.{number}"] = f"{train.fingerprint} {' '.join(names)}"
            continue
        reading = Data(train=file).reading("train")
        assert reading is not None
        rows = table.load(Source(**reading), tasks.schema_of("masked", {}), cache, Findings(), progress=progress)
        tables.append((rows, ("text",)))
        sources[f"data.{number}"] = rows.fingerprint
    if not any(names for _, names in tables):
        raise RecipeError(
            "pretrain.corpus: found within-task, but the rows of this task hold no text; name files instead"
        )
    return Texts(tables), sources
