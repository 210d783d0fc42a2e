"""The batches of a training and its number of steps, from its settings and rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import RecipeError
from warmstart.training.batches import LengthGroupedBatchSampler, RandomBatchSampler, Rows, grouping_lengths
from warmstart.training.label_batches import LabelPairBatchSampler, row_labels
from warmstart.training.settings import SUPERVISED_CONTRASTIVE, Settings, training_arguments
from warmstart.training.streams import StreamBatchSampler, StreamRows, check_one_process
from warmstart.training.task_sampling import MultiTaskBatchSampler, MultiTaskRows

if TYPE_CHECKING:
    from transformers import TrainingArguments

DEFAULT_EPOCHS = 3
"""Epochs where none are set and there are enough rows."""


def count_steps(rows: Rows | MultiTaskRows | StreamRows, settings: Settings) -> tuple[RandomBatchSampler, int]:
    """The batches of an epoch, and the number of optimizer steps if nothing stops the training early."""
    args = training_arguments(settings, Path(), "fp32")
    batches = make_batches(rows, settings, args)
    return batches, planned_steps(settings, args, len(batches))


def planned_steps(settings: Settings, args: TrainingArguments, batches: int) -> int:
    """The number of optimizer steps, with so many batches in an epoch, if nothing stops the training early."""
    steps = math.ceil(batches / args.gradient_accumulation_steps)
    return settings.max_steps or math.ceil(count_epochs(settings, batches) * steps)


def make_batches(
    rows: Rows | MultiTaskRows | StreamRows, settings: Settings, args: TrainingArguments
) -> RandomBatchSampler:
    """The batches for these settings, those of this process."""
    if isinstance(rows, StreamRows):
        check_one_process(args.world_size)
        return StreamBatchSampler(rows, args.train_batch_size, seed=settings.seed)
    process = {"num_processes": args.world_size, "process_index": args.process_index}
    if isinstance(rows, MultiTaskRows):
        by_length = settings.batching == "by-length"
        batches = MultiTaskBatchSampler(rows, args.train_batch_size, by_length=by_length, seed=settings.seed, **process)
        steps = len(batches) / args.gradient_accumulation_steps
        batches.epochs = settings.max_steps / steps if settings.max_steps else count_epochs(settings, len(batches))
        return batches
    if settings.loss == SUPERVISED_CONTRASTIVE:
        return LabelPairBatchSampler(row_labels(rows), args.train_batch_size, seed=settings.seed, **process)
    if settings.batching == "random" and not settings.batch_tokens:
        return RandomBatchSampler(len(rows), args.train_batch_size, seed=settings.seed, **process)
    return length_grouped_batches(rows, settings, args.train_batch_size, **process)


def count_epochs(settings: Settings, batches: int) -> float:
    """The number of epochs that is set; else three, or as many as `min_steps` needs."""
    if settings.epochs is not None:
        return settings.epochs
    steps = math.ceil(batches / settings.trainer.get("gradient_accumulation_steps", 1))
    return float(max(DEFAULT_EPOCHS, math.ceil((settings.min_steps or 0) / steps)))


def count_started_epochs(args: TrainingArguments, batches: int) -> int:
    """How many epochs the training starts, the last of which may end early."""
    steps = math.ceil(batches / args.gradient_accumulation_steps)
    epochs: float = args.max_steps / steps if args.max_steps > 0 else args.num_train_epochs
    return math.ceil(epochs)


def length_grouped_batches(
    rows: Rows, settings: Settings, batch_size: int, **process: int
) -> LengthGroupedBatchSampler:
    """Batches of rows of similar length, by number of rows or of tokens."""
    if settings.batching == "random":
        raise RecipeError(
            "training.batch_tokens: needs rows of similar length in a batch; leave training.batching: random out"
        )
    return LengthGroupedBatchSampler(
        grouping_lengths(rows), batch_size, batch_tokens=settings.batch_tokens, seed=settings.seed, **process
    )
