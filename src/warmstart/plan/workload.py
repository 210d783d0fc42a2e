"""The workload of a recipe: its steps, the shapes of its batches, and what they cost in operations and bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from warmstart.models.added_tokens import add_tokens
from warmstart.models.architectures import spec_of
from warmstart.models.layer_map import LayerMap
from warmstart.models.loading import load_config, load_tokenizer
from warmstart.pipeline.finetune import prepare_training, settings_of
from warmstart.pipeline.model_start import load_start, window_of
from warmstart.pipeline.prepare import RowEncoder, fit_task, read_rows
from warmstart.plan.cost_curve import BatchShape, batch_shapes, evenly_spaced
from warmstart.plan.flops import Inputs, Loss, ModelCost, count_flops
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import ArrangesRows, ReadsStream, TunesOnDev, VariesByEpoch
from warmstart.training.batches import row_lengths
from warmstart.training.callbacks.gradual_unfreezing import count_phases, trainable_layers
from warmstart.training.settings import Settings
from warmstart.training.steps import count_steps
from warmstart.training.streams import StreamRows, as_stream

ResolvePrecision = Callable[[str, bool], str]
"""Resolves a precision, given whether the encoder supports 16 bits: see `Device.precision`."""


@dataclass(frozen=True)
class Workload:
    """All that the cost of a stage follows from, whatever device it runs on."""

    rows: dict[str, int]
    """Rows of each part."""
    steps: int
    batches: int
    """Batches of the whole training: more than steps where gradients are accumulated."""
    shapes: Sequence[BatchShape]
    """Shapes of an epoch's batches, or of the first ones where the training ends earlier."""
    tokens: int
    """Tokens of the rows of these batches, without padding."""
    model: ModelCost
    precision: str
    relative_cost: float = 1.0
    """The average cost of a step, relative to one in which everything that is ever trained is trained."""
    feature_flops: float = 0.0
    """Operations of the features of a frozen encoder, whose steps then train the head alone."""
    cached_flops: float = 0.0
    """Operations that are saved where frozen blocks are computed once for each row, not in each step."""
    evaluation_flops: float = 0.0
    """Operations of the predictions for dev and test rows."""

    @property
    def encoder_frozen(self) -> bool:
        """Whether the encoder is frozen, and its features are computed once."""
        return self.feature_flops > 0

    @property
    def padded_tokens(self) -> int:
        """Tokens of all batches of the training, padding included."""
        return round(sum(shape.tokens for shape in self.shapes) / len(self.shapes) * self.batches)

    @property
    def padding(self) -> float:
        """Share of them that is padding."""
        return 1 - self.tokens / sum(shape.tokens for shape in self.shapes)

    @property
    def training_flops(self) -> float:
        """Operations of the training."""
        each = self.model.step.total(self.shapes) / len(self.shapes)
        if self.encoder_frozen:
            return self.feature_flops
        return each * self.batches * self.relative_cost - self.cached_flops


def workload_of(recipe: Recipe, resolve: ResolvePrecision, folder: Path, progress: Progress) -> Workload:
    """Read and encode the rows as `fit` does, and count the model on some of them; no weights are loaded.

    Args:
        folder: For files that are not needed afterwards.
    """
    parts = read_rows(recipe, cache_folder(), progress)
    config, tokenizer = load_config(recipe.model), load_tokenizer(recipe.model)
    task = fit_task(recipe, parts)
    add_tokens(tokenizer, task.new_tokens)
    window = window_of(recipe, config, tokenizer, task)
    encoder = RowEncoder(task, tokenizer, window)
    encoded = {
        name: encoder.encode(table, folder / f"{name}.arrow", progress, parts.findings)[0]
        for name, table in parts.tables.items()
    }
    if isinstance(task, ArrangesRows) and task.arranges_rows:  # the encoder chooses the training rows
        encoded["train"] = prepare_training(recipe, parts, folder, progress).rows
    rows, settings = as_stream(task, encoded["train"]), settings_of(recipe)
    precision = resolve(settings.precision, spec_of(config).half_precision)
    model = count_flops(
        lambda: _with_frozen(load_start(recipe, config, task, tokenizer, window, weights=False).model, settings),
        _samples(encoded["train"], task, tokenizer),
        _loss(task, settings),
        precision != "fp32",
    )
    sampler, steps = count_steps(rows, settings)
    batches = steps * int(settings.trainer.get("gradient_accumulation_steps", 1))
    chosen = list(itertools.islice(sampler, batches))
    shapes = batch_shapes(rows, chosen, settings.slices_per_text)
    lengths = row_lengths(encoded["train"])
    padded = isinstance(rows, StreamRows) or settings.slices_per_text is not None
    tokens = sum(shape.tokens for shape in shapes) if padded else lengths_of(lengths, chosen)
    forward = {name: model.forward.total(batch_shapes(part, _singly(part))) for name, part in encoded.items()}
    epochs = math.ceil(batches / len(sampler))
    dev = 1 + (epochs if settings.early_stopping_patience else 0)
    dev += isinstance(task, TunesOnDev) and task.tunes_on_dev
    twice = 2 if settings.r_drop else 1
    return Workload(
        {name: len(table) for name, table in parts.tables.items()},
        steps,
        batches,
        [BatchShape(twice * shape.lists, shape.length) for shape in shapes],
        twice * tokens,
        model,
        precision,
        relative_step_cost(settings, model.groups, steps, math.ceil(steps / epochs)),
        forward["train"] if recipe.layers.freeze == "encoder" else 0.0,
        forward["train"] * _cached_passes(settings, model.blocks, batches / len(sampler)),
        forward.get("test", 0.0) + dev * forward.get("dev", 0.0),
    )


def lengths_of(lengths: npt.NDArray[np.int64], batches: Sequence[Sequence[int]]) -> int:
    """Tokens of the rows of batches, without padding."""
    return int(sum(lengths[batch].sum() for batch in batches))


def relative_step_cost(settings: Settings, groups: int, steps: int, epoch: int) -> float:
    """The average cost of a step, relative to one in which everything that is ever trained is trained.

    Args:
        groups: Layers of the model's layer map.
        epoch: Steps of an epoch, the default length of a phase of unfreezing.
    """
    last = count_phases(groups, settings.unfreeze, settings.freeze) - 1
    left, total = steps, 0.0
    for phase in range(last + 1):
        steps_here = left if phase == last else min(left, settings.unfreeze_every or epoch)
        total += steps_here * _passes(trainable_layers(groups, settings.unfreeze, phase, settings.freeze))
        left -= steps_here
    return total / steps / _passes(trainable_layers(groups, "all", 0, settings.freeze))


def _cached_passes(settings: Settings, blocks: int, epochs: float) -> float:
    """How many forward passes of the whole encoder over all rows are saved where frozen blocks are computed once."""
    if settings.cache_frozen is False or settings.freeze < 2 or epochs < 2:
        return 0.0
    return (epochs - 1) * (settings.freeze - 1) / blocks


def _passes(learns: list[bool]) -> int:
    """Passes through blocks: all forward; backward down to the lowest trained one; again for each trained one."""
    blocks = learns[1:-1]
    lowest = max(learns.index(True), 1) if any(learns) else len(learns)
    return len(blocks) + max(0, len(learns) - 1 - lowest) + sum(blocks)


def _samples(rows: Dataset, task: AnyTask, tokenizer: PreTrainedTokenizerBase) -> list[Inputs]:
    """Batches of two short, two medium and two long rows, and of three, to separate the cost of rows and of tokens."""
    order = row_lengths(rows).argsort()
    rows_by_length = [order[index] for index in evenly_spaced(len(order), 3)]
    groups = [[row] * 2 for row in rows_by_length] + [[rows_by_length[len(rows_by_length) // 2]] * 3]
    features = [[dict(rows[int(row)]) for row in group] for group in groups]
    if isinstance(task, ReadsStream) and task.bptt:  # pieces of three lengths, of one document or several
        every = list(itertools.chain(*(feature["input_ids"] for group in features for feature in group)))
        parts = [(2, task.bptt // 2), (2, task.bptt), (2, 2 * task.bptt), (3, task.bptt)]
        features = [[{"input_ids": (every * length)[:length], "row": 0}] * count for count, length in parts]
    if isinstance(task, VariesByEpoch):
        features = [list(task.features_for_epoch(group, tokenizer, 0, 0, 1)) for group in features]
    batches = [task.collate(group, tokenizer) for group in features]
    return [{name: tensor for name, tensor in batch.items() if name != "row"} for batch in batches]


def _singly(rows: Dataset) -> list[list[int]]:
    return [[number] for number in range(len(rows))]


def _with_frozen(model: PreTrainedModel, settings: Settings) -> PreTrainedModel:
    """The model with its lowest layers frozen that are never trained."""
    for group in LayerMap.of(model).groups[: settings.freeze]:
        for parameter in group.parameters.values():
            parameter.requires_grad_(False)
    return model


def _loss(task: AnyTask, settings: Settings) -> Loss:
    """The loss of the task, as a training computes it."""
    own = task.loss(settings.label_smoothing)

    def loss(model: nn.Module, inputs: Inputs) -> torch.Tensor:
        arguments = dict(inputs)
        labels = arguments.pop("labels") if own else None
        outputs = model(**arguments)
        losses = own(outputs, labels) if own else outputs["loss"]
        total = sum(losses.values()) if isinstance(losses, Mapping) else losses
        return cast(torch.Tensor, total)

    return loss
