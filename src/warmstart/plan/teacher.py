"""A recipe with a teacher, planned: what its answers cost, and what the student's training costs with them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from warmstart import tasks
from warmstart.data import table
from warmstart.data.findings import Findings
from warmstart.data.schema import Column, Schema, Value
from warmstart.data.table import Table
from warmstart.errors import RecipeError
from warmstart.inference.ensembles import members_of
from warmstart.inference.folders import model_folder
from warmstart.inference.predictor import Predictor
from warmstart.models.loading import load_config, load_model, load_tokenizer
from warmstart.pipeline.distil import texts_source, without_shared
from warmstart.pipeline.prepare import read_rows
from warmstart.plan.cost_curve import BatchShape, evenly_spaced
from warmstart.plan.devices import Device
from warmstart.plan.estimate import NUMBER, Seconds, StageEstimate
from warmstart.plan.flops import Inputs, ModelCost, count_flops
from warmstart.plan.trial_run import EVALUATED, WARM_UP
from warmstart.recipe import DistilOptions, FileOptions, Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import verify
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import open_atomic
from warmstart.tasks.base import AnyFeature
from warmstart.tasks.shared.protocols import extended_model
from warmstart.tasks.shared.saved_task import open_task
from warmstart.tasks.shared.soft_labels import PROBABILITIES, is_soft, weighted_labels

STAGE, CHUNK = "distil: teacher", 256
VOTES = "votes"


def estimate_teacher(
    options: DistilOptions, recipe: Recipe, device: Device, price: float | None, measure: bool, progress: Progress
) -> StageEstimate:
    """What the teacher's answers cost: a forward pass of every text, on one device.

    Args:
        price: US dollars per hour; None for the table's.
        measure: Answer some of the texts here, and estimate the time from that.
    """
    texts = _texts(options, recipe, progress)
    if not len(texts):
        raise RecipeError("stages.distil.texts: none of them can be read; see `warmstart check`")
    shapes, cost, members = _counted(options, texts)
    # Vectors are computed by themselves, in a second pass.
    passes = 2 if options.match == "both" else 1
    flops = passes * members * cost.forward.total(shapes)
    precision = options.precision if options.precision in device.peak_tflops else device.precision("fp32", half=False)
    seconds = passes * _measured(options, texts, progress) if measure else device.seconds(flops, precision)
    memory = members * cost.parameters * NUMBER / 1e9 + device.overhead_gb
    return StageEstimate(
        stage=STAGE,
        rows={"texts": len(texts)},
        steps=0,
        tokens=sum(shape.tokens for shape in shapes),
        padding=0.0,
        parameters=members * cost.parameters,
        trainable_parameters=0,
        flops=flops,
        memory_gb=memory,
        seconds=Seconds(0.0, 0.0, seconds),
        cost=(device.price_per_hour if price is None else price) * seconds / 3600,
        hardware=device.name,
        devices=1,
        precision=precision,
        measured=measure,
        fits=memory <= device.memory_gb,
    )


def with_taught_rows(options: DistilOptions, recipe: Recipe, path: Path, progress: Progress) -> Recipe:
    """The recipe with the teacher's texts among its training rows, in a file.

    Each has the answer of some labelled row: what a row costs does not depend on its answer.
    """
    if recipe.data.add is not None:
        raise RecipeError(
            "data.add: found beside a teacher, which cannot be planned together; plan without one of them"
        )
    parts = read_rows(recipe, cache_folder(), progress)
    schema = tasks.schema_of(recipe.task.name, recipe.task.options)
    texts, _ = without_shared(_texts(options, recipe, progress), parts, schema)
    stand_in = _StandIn(recipe, schema, parts.tables["train"])
    with open_atomic(path) as file:
        file.writelines(f"{json.dumps(row)}\n" for row in stand_in.rows(texts))
    add = FileOptions(file=str(path), format="jsonl", header=True, encoding="utf-8")
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"add": add})})


@dataclass(frozen=True)
class _StandIn:
    """Rows in the columns that the recipe reads, with the answers of labelled rows."""

    recipe: Recipe
    schema: Schema
    labelled: Table

    def rows(self, texts: Table) -> Iterator[dict[str, object]]:
        """The rows, as the recipe's files hold them."""
        answer = self.schema.answer_in(self.labelled.rows.column_names)
        assert answer is not None
        if answer.kind == "relevance":
            yield from self._rankings(texts)
            return
        for row, cells in zip(texts.dicts(), itertools.cycle(self.answers(answer)), strict=False):
            yield {**self.inputs(row), **cells}

    def _rankings(self, texts: Table) -> Iterator[dict[str, object]]:
        """Each document of a query but the last, which is not relevant: as many rows as documents are compared."""
        last = dict(zip(texts.column("query"), texts.column("document"), strict=True))
        names = {name: self.recipe.data.columns.get(name, name) for name in ("label", "negative")}
        kind = self.recipe.task.options.get("rows", "labelled")
        for row in texts.dicts():
            relevant = row["document"] != last[row["query"]]
            if kind == "labelled":
                yield {**self.inputs(row), str(names["label"]): int(relevant)}
            elif relevant:
                other = {str(names["negative"]): last[row["query"]]} if kind == "triplets" else {}
                yield {**self.inputs(row), **other}

    def inputs(self, row: Mapping[str, Value]) -> dict[str, object]:
        """What a text consists of, by the names of the recipe's columns."""
        columns = self.recipe.data.columns
        return {str(columns.get(name, name)): value for name, value in row.items() if value is not None}

    def answers(self, answer: Column) -> list[dict[str, object]]:
        """The answer of each labelled row, as the recipe's columns hold it; of entities, none."""
        named = [name for name in self.schema.answers if name in self.recipe.data.columns]
        name = named[0] if named else self.schema.answers[0]
        if answer.kind == "entities":
            return [{str(self.recipe.data.columns.get(name, name)): []}]
        return [self._cells(name, value) for value in self.labelled.column(answer.name)]

    def _cells(self, name: str, value: object) -> dict[str, object]:
        columns = self.recipe.data.columns.get(name, name)
        if is_soft(value):
            shares = weighted_labels(value)
            value = max(shares, key=lambda label: shares[label])
        if name == PROBABILITIES:
            return (
                {columns: {value: 1.0}}
                if isinstance(columns, str)
                else {column: float(column == value) for column in columns}
            )
        if name == VOTES:
            return {columns: [value]} if isinstance(columns, str) else dict.fromkeys(columns, value)
        return {str(columns): value}


def _texts(options: DistilOptions, recipe: Recipe, progress: Progress) -> Table:
    schema = tasks.schema_of(recipe.task.name, recipe.task.options)
    source = texts_source(options, recipe)
    return table.load(source, schema.without_answers(), cache_folder(), Findings(), progress=progress)


def _counted(options: DistilOptions, texts: Table) -> tuple[list[BatchShape], ModelCost, int]:
    """The shape of every text, what the model costs, and how many models answer."""
    folder = model_folder(options.teacher)
    members = members_of(folder, verify(folder)) or [folder]
    first = str(members[0])
    config, tokenizer = load_config(first), load_tokenizer(first)
    task, saved = open_task(folder, config)
    features: list[AnyFeature] = []
    rows = texts.dicts()
    while chunk := list(itertools.islice(rows, CHUNK)):
        columns = {name: [row[name] for row in chunk] for name in task.input_columns if name in chunk[0]}
        features += task.encode(columns, tokenizer, saved.window)
    shapes = [_shape(feature) for feature in features]
    order = sorted(range(len(features)), key=lambda number: shapes[number])
    chosen = [features[order[index]] for index in evenly_spaced(len(order), 3)]
    batches = [[feature] * 2 for feature in chosen] + [[chosen[len(chosen) // 2]] * 3]
    inputs = [task.collate(list(map(dict, batch)), tokenizer) for batch in batches]

    def build() -> nn.Module:
        model = load_model(first, task.auto_class, {}, tokenizer, weights=False).model
        return extended_model(task, model, None)

    return shapes, count_flops(build, inputs, _sum_of_outputs, options.precision != "fp32"), len(members)


def _shape(feature: AnyFeature) -> BatchShape:
    """The tokens of a text: one list, or one a slice."""
    ids = feature["input_ids"]
    return BatchShape(len(ids), max(map(len, ids))) if isinstance(ids[0], list) else BatchShape(1, len(ids))


def _sum_of_outputs(model: nn.Module, inputs: Inputs) -> torch.Tensor:
    """Something with a gradient, from a model without labels."""
    logits: torch.Tensor = model(**inputs)["logits"]
    return logits.float().sum()


def _measured(options: DistilOptions, texts: Table, progress: Progress) -> float:
    """Seconds to answer all texts, extrapolated from some of them."""
    progress.log("answering some texts with the teacher")
    predictor = Predictor.load(options.teacher, options.precision, options.engine)
    list(predictor.stream(texts.select(evenly_spaced(len(texts), WARM_UP)).dicts()))
    sample = texts.select(evenly_spaced(len(texts), EVALUATED))
    began = time.monotonic()
    list(predictor.stream(sample.dicts()))
    return (time.monotonic() - began) * len(texts) / len(sample)
