"""The work that a recipe asks for: its steps, the shapes of its batches, and what they cost in operations and bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.models.added_tokens import add_tokens
from warmstart.models.architectures import row_of
from warmstart.models.layer_map import LayerMap
from warmstart.models.loading import load_config, load_tokenizer
from warmstart.pipeline.finetune import build, make_ready, settings_of, window_of
from warmstart.pipeline.prepare import encode, fit_task, read_rows
from warmstart.plan.cost_curve import Shape, batch_shapes, evenly
from warmstart.plan.flops import Counted, Inputs, Loss, count
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.tasks.base import Task
from warmstart.training.batches import lengths_of
from warmstart.training.callbacks.unfreezing import learning, phases
from warmstart.training.settings import Settings
from warmstart.training.steps import steps_of

Precise = Callable[[str, bool], str]
"""Gives the precision for the one that is asked for, and whether the encoder runs in 16 bits: see `Device`."""


@dataclass(frozen=True)
class Work:
    """All that the cost of a stage follows from, whatever it runs on."""

    rows: dict[str, int]
    """Rows of each part."""
    steps: int
    batches: int
    """Those of the whole training: more than steps where gradients are accumulated."""
    shapes: Sequence[Shape]
    """Of an epoch's batches, or of the first ones where the training ends before."""
    tokens: int
    """Tokens of the rows of these batches, without padding."""
    counted: Counted
    precision: str
    share: float = 1.0
    """What a step costs on average beside one in which all that ever learns does."""
    features: float = 0.0
    """Operations of the features that an encoder held still gives; its steps are then of the head alone."""
    testing: float = 0.0
    """Operations of the answers to dev and test rows."""

    @property
    def still(self) -> bool:
        """Whether the encoder is held still."""
        return self.features > 0

    @property
    def padded(self) -> int:
        """Tokens of all batches of the training, padding counted."""
        return round(sum(one.tokens for one in self.shapes) / len(self.shapes) * self.batches)

    @property
    def padding(self) -> float:
        """Share of them that is padding."""
        return 1 - self.tokens / sum(one.tokens for one in self.shapes)

    @property
    def training(self) -> float:
        """Operations of the training."""
        each = self.counted.step.total(self.shapes) / len(self.shapes)
        return self.features if self.still else each * self.batches * self.share


def work_of(recipe: Recipe, precise: Precise, folder: Path, progress: Progress) -> Work:
    """Read the rows and turn them into tokens as `fit` does, and count the model on some; no weights are opened.

    Args:
        folder: For files that are not needed afterwards.
    """
    parts = read_rows(recipe, cache_folder(), progress)
    config, tokenizer = load_config(recipe.model), load_tokenizer(recipe.model)
    task = fit_task(recipe, parts)
    add_tokens(tokenizer, task.new_tokens)
    window = window_of(recipe, config, tokenizer, task)
    encoded = {
        name: encode(table, task, tokenizer, window, folder / f"{name}.arrow", progress, parts.findings)[0]
        for name, table in parts.tables.items()
    }
    if task.arranges:  # which rows are learned from is then for the encoder to say
        encoded["train"] = make_ready(recipe, parts, folder, progress).rows
    rows, settings = encoded["train"], settings_of(recipe)
    precision = precise(settings.precision, row_of(config).half)
    counted = count(
        lambda: _held(build(recipe, task, tokenizer, window), settings),
        _samples(rows, task, tokenizer),
        _loss(task, settings),
        precision != "fp32",
    )
    sampler, steps = steps_of(rows, settings)
    batches = steps * int(settings.trainer.get("gradient_accumulation_steps", 1))
    chosen = list(itertools.islice(sampler, batches))
    shapes = batch_shapes(rows, chosen)
    lengths = lengths_of(rows)
    alone = {name: counted.forward.total(batch_shapes(part, _singly(part))) for name, part in encoded.items()}
    epochs = math.ceil(batches / len(sampler))
    dev = 1 + (epochs if settings.early_stopping_patience else 0) + task.tunes
    twice = 2 if settings.r_drop else 1
    return Work(
        {name: len(table) for name, table in parts.tables.items()},
        steps,
        batches,
        [Shape(twice * one.lists, one.length) for one in shapes],
        twice * int(sum(lengths[one].sum() for one in chosen)),
        counted,
        precision,
        share_of(settings, counted.groups, steps, math.ceil(steps / epochs)),
        alone["train"] if recipe.layers.freeze == "encoder" else 0.0,
        alone.get("test", 0.0) + dev * alone.get("dev", 0.0),
    )


def share_of(settings: Settings, groups: int, steps: int, epoch: int) -> float:
    """What a step costs on average beside one in which all that ever learns does.

    Args:
        groups: Layers of the model's map.
        epoch: Steps of an epoch, which is a phase of unfreezing where nothing else is said.
    """
    last = phases(groups, settings.unfreeze, settings.freeze) - 1
    left, total = steps, 0.0
    for phase in range(last + 1):
        here = left if phase == last else min(left, settings.unfreeze_every or epoch)
        total += here * _passes(learning(groups, settings.unfreeze, phase, settings.freeze))
        left -= here
    return total / steps / _passes(learning(groups, "all", 0, settings.freeze))


def _passes(learns: list[bool]) -> int:
    """Passes through blocks: all forward; backward down to the lowest that learns; once more for weights that learn."""
    blocks = learns[1:-1]
    lowest = max(learns.index(True), 1) if any(learns) else len(learns)
    return len(blocks) + max(0, len(learns) - 1 - lowest) + sum(blocks)


def _samples(rows: Any, task: Task[Any], tokenizer: Any) -> list[Inputs]:
    """Batches of two short, two middling and two long rows, and of three, so that rows and tokens are told apart."""
    order = lengths_of(rows).argsort()
    places = [order[place] for place in evenly(len(order), 3)]
    groups = [[place] * 2 for place in places] + [[places[len(places) // 2]] * 3]
    drawn = [task.vary([dict(rows[int(one)]) for one in group], tokenizer, 0, 0, 1) for group in groups]
    collated = [task.collate(one, tokenizer) for one in drawn]
    return [{name: one for name, one in batch.items() if name != "row"} for batch in collated]


def _singly(rows: Any) -> list[list[int]]:
    return [[number] for number in range(len(rows))]


def _held(model: Any, settings: Settings) -> Any:
    """The model with the lowest layers held still that never learn."""
    for group in LayerMap.of(model).groups[: settings.freeze]:
        for parameter in group.parameters.values():
            parameter.requires_grad_(False)
    return model


def _loss(task: Task[Any], settings: Settings) -> Loss:
    """The loss of the task, as a training computes it."""
    own = task.loss(settings.label_smoothing)

    def loss(model: Any, inputs: Inputs) -> Any:
        given = dict(inputs)
        labels = given.pop("labels") if own else None
        outputs = model(**given)
        found = own(outputs, labels) if own else outputs["loss"]
        return sum(found.values()) if isinstance(found, Mapping) else found

    return loss
