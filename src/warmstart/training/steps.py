"""Which batches a training has, and how many steps: what its settings ask for, given the rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import transformers

from warmstart.errors import RecipeError
from warmstart.training.batches import LengthBatches, RandomBatches, grouping_of
from warmstart.training.settings import Settings, arguments
from warmstart.training.task_sampling import Mixed, MixedBatches

FEWEST_EPOCHS = 3
"""Epochs where none are asked for and there are rows enough."""


def steps_of(rows: Any, settings: Settings) -> tuple[RandomBatches, int]:
    """The batches of an epoch, and how many optimizer steps the training takes if nothing stops it early."""
    args = arguments(settings, Path(), "fp32")
    batches = batches_of(rows, settings, args)
    epoch = math.ceil(len(batches) / args.gradient_accumulation_steps)
    return batches, settings.max_steps or math.ceil(epochs_of(settings, len(batches)) * epoch)


def batches_of(rows: Any, settings: Settings, args: transformers.TrainingArguments) -> RandomBatches:
    """The batches that the settings ask for, those of this process."""
    mine = {"processes": args.world_size, "process": args.process_index}
    if isinstance(rows, Mixed):
        mixed = MixedBatches(
            rows, args.train_batch_size, by_length=settings.batching == "by-length", seed=settings.seed, **mine
        )
        steps = len(mixed) / args.gradient_accumulation_steps
        mixed.epochs = settings.max_steps / steps if settings.max_steps else epochs_of(settings, len(mixed))
        return mixed
    if settings.batching == "random" and not settings.batch_tokens:
        return RandomBatches(len(rows), args.train_batch_size, seed=settings.seed, **mine)
    return grouped(rows, settings, args.train_batch_size, **mine)


def epochs_of(settings: Settings, batches: int) -> float:
    """As many epochs as are asked for; else three, or as many as `least_steps` needs."""
    if settings.epochs is not None:
        return settings.epochs
    steps = math.ceil(batches / settings.trainer.get("gradient_accumulation_steps", 1))
    return float(max(FEWEST_EPOCHS, math.ceil((settings.min_steps or 0) / steps)))


def passes(args: transformers.TrainingArguments, batches: int) -> int:
    """How many epochs are begun in the training."""
    steps = math.ceil(batches / args.gradient_accumulation_steps)
    epochs: float = args.max_steps / steps if args.max_steps > 0 else args.num_train_epochs
    return math.ceil(epochs)


def grouped(rows: Any, settings: Settings, batch: int, **mine: int) -> LengthBatches:
    """Batches of rows of like length, by number or by tokens."""
    if settings.batching == "random":
        raise RecipeError("training.batch_tokens: needs rows of like length together; drop training.batching: random")
    return LengthBatches(grouping_of(rows), batch, tokens=settings.batch_tokens, seed=settings.seed, **mine)
