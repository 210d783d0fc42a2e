"""Frozen layers give the same states of a row in every epoch: computed once, stored on disk for the layers above.

Their dropout is off then, as in evaluation; what is trained keeps its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import torch

from warmstart.errors import ModelError, RecipeError
from warmstart.models.architectures import encoder_config
from warmstart.models.lower_blocks import LowerBlocks
from warmstart.models.precision import autocast, resolve_precision
from warmstart.pipeline.computed_columns import Vector, open_column, write_column
from warmstart.pipeline.frozen_features import TARGETS
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import Batch, Feature
from warmstart.tasks.shared.protocols import VariesByEpoch
from warmstart.tasks.shared.text_inputs import count_slices
from warmstart.training.batches import row_lengths
from warmstart.training.given_states import STATES, given_states, pad_states
from warmstart.training.job import TrainingJob
from warmstart.training.steps import count_steps

BAR = "frozen layers"
"""The name of the progress bar."""
ROWS = 128
"""Rows read ahead, so that those of similar length can share a batch."""
MOST_BYTES = 8 << 30
"""States beyond that are computed in each step."""
CLOSE = 1e-3
"""How far states may be apart, by rounding in other batches, and still be the same."""


def store_states(job: TrainingJob, path: Path, progress: Progress) -> TrainingJob:
    """The job with what its frozen blocks give for each row, where that saves time and can be.

    The main process writes it to `path`, from which all read it, memory-mapped.

    Raises:
        RecipeError: It is asked for and cannot be.
    """
    if job.settings.cache_frozen is False:
        return job
    try:
        blocks = _blocks(job)
    except ModelError as reason:
        if job.settings.cache_frozen:
            raise RecipeError(f"layers.cache_frozen: found true, but {reason}; leave it out") from None
        return job
    with processes.main_process_first():
        if processes.is_main_process():
            write_column(job.rows, path, STATES, _Writer(job, blocks).compute, ROWS, progress.bar(BAR, len(job.rows)))
    progress.log(f"the output of {len(blocks.blocks)} frozen blocks is stored for {len(job.rows):,} rows")
    return replace(job, rows=open_column(path, STATES), lower_blocks=blocks)


def _blocks(job: TrainingJob) -> LowerBlocks:
    """The blocks that never learn, checked on two rows.

    Raises:
        ModelError: Why their output cannot be stored, or need not be.
    """
    settings, rows = job.settings, job.rows
    if settings.freeze < 2:
        raise ModelError("layers.freeze leaves no block that is never trained")
    if not isinstance(rows, datasets.Dataset):
        raise ModelError("rows are read as a stream")
    if isinstance(job.task, VariesByEpoch) or settings.slices_per_text is not None:
        raise ModelError("rows differ from epoch to epoch")
    if settings.fsdp:
        raise ModelError("weights are sharded")
    if "input_ids" not in rows[0] or count_slices(rows[0]) is not None:
        raise ModelError("a row is not one sequence of tokens")
    lengths = row_lengths(rows)
    size = int(lengths.sum()) * int(getattr(encoder_config(job.model.config), "hidden_size", 0)) * 4
    if size > MOST_BYTES:
        raise ModelError(f"the states of all rows would take {size / 1e9:.0f} GB, more than {MOST_BYTES / 1e9:.0f}")
    batches, steps = count_steps(rows, settings)
    if not settings.cache_frozen and steps * settings.trainer.get("gradient_accumulation_steps", 1) < 2 * len(batches):
        raise ModelError("each row is read only once")
    blocks = LowerBlocks(job.model, settings.freeze - 1)
    _Writer(job, blocks).check([rows[int(index)] for index in (np.argmin(lengths), np.argmax(lengths))])
    return blocks


class _Writer:
    """Computes what the frozen blocks give, with dropout off."""

    def __init__(self, job: TrainingJob, blocks: LowerBlocks) -> None:
        self.job, self.blocks = job, blocks
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = job.model.to(self.device)
        self.precision = resolve_precision(job.settings.precision, job.model.config)

    def compute(self, rows: list[Feature]) -> list[Vector]:
        """The states of the tokens of each row, as a flat array."""
        batch = self._collate(rows)
        with self.blocks.recorded() as outputs:
            self._last_states(batch)
        states, real = outputs[0].float().cpu(), batch["attention_mask"].bool().cpu()
        return [one[mask].numpy().reshape(-1) for one, mask in zip(states, real, strict=True)]

    def check(self, rows: list[Feature]) -> None:
        """Refuse blocks above that read more than states, which would then compute something else."""
        arrays, batch = self.compute(rows), self._collate(rows)
        computed = self._last_states(batch)
        with given_states(self.blocks, {**batch, **pad_states(arrays, batch)}):
            given = self._last_states(batch)
        if not torch.allclose(computed, given, rtol=CLOSE, atol=CLOSE):
            raise ModelError("the layers above read more than the states of tokens")

    def _collate(self, rows: list[Feature]) -> Batch:
        batch = self.job.task.collate([row.copy() for row in rows], self.job.tokenizer)
        return {name: tensor.to(self.device) for name, tensor in batch.items() if name not in TARGETS}

    @torch.inference_mode()
    def _last_states(self, batch: Batch) -> torch.Tensor:
        training = self.model.training
        self.model.eval()
        try:
            with autocast(self.precision, self.device):
                return self.blocks.last_states(batch)
        finally:
            self.model.train(training)
