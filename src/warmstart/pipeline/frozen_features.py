"""A frozen encoder gives the same features in every epoch: computed once, stored on disk for the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from warmstart.errors import RecipeError
from warmstart.models.precision import Precision, resolve_precision
from warmstart.pipeline.computed_columns import Vector, open_column, write_column
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import AnyTask, Feature
from warmstart.tasks.shared.protocols import ReadsWindows
from warmstart.tasks.shared.teacher_vectors import TEACHER_VECTOR
from warmstart.tasks.shared.text_inputs import count_slices
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from warmstart.models.heads.pooled import PooledModel

TARGETS = ("labels", "start_positions", "end_positions")
ROWS = {"vectors": 1024, "states": 128}
"""Rows read ahead, so that those of similar length can share a batch; fewer where every token has a state."""


def check_slices(model: PooledModel, task: AnyTask, window: Window) -> None:
    """Refuse a head that needs more of a text in slices than the one vector that is stored of it."""
    if isinstance(task, ReadsWindows):  # each window is a row of its own
        return
    if window.method == "slices" and (model.feature_type == "states" or model.slice_pooling.attention is not None):
        raise RecipeError(
            "layers.freeze: encoder stores one vector of a text in slices, and a bilstm or attention needs more; "
            "choose another head.type, head.pooling or window.slice_pooling, or window.method: head"
        )


@dataclass(frozen=True)
class FeatureWriter:
    """Computes the features of a frozen encoder once and stores them.

    Args:
        model: A model with a head of our own (`models.heads`).
    """

    model: PooledModel
    task: AnyTask
    tokenizer: PreTrainedTokenizerBase
    precision: str

    def write(self, rows: Dataset, path: Path, progress: Progress) -> Dataset:
        """The encoded rows with the encoder's features of each, memory-mapped from `path`.

        The main process writes them, with dropout off meanwhile.
        """
        model, name = self.model, self.model.feature_type
        if processes.is_main_process():
            training, precision = model.training, resolve_precision(self.precision, model.config)
            model.eval().to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
            write_column(
                rows,
                path,
                name,
                lambda some: self._features(some, precision),
                ROWS[name],
                progress.bar("features", len(rows)),
            )
            model.train(training)
        written = open_column(path, name)
        # A frozen encoder, as held-out rows may decide, learns no vectors.
        return written.remove_columns(TEACHER_VECTOR) if TEACHER_VECTOR in written.column_names else written

    def embed(self, rows: Sequence[Feature]) -> Vector:
        """The features of a few encoded rows, of shape (rows, width)."""
        training = self.model.training
        self.model.eval()
        vectors = self._features(rows, resolve_precision(self.precision, self.model.config))
        self.model.train(training)
        return np.stack(vectors)

    @torch.inference_mode()
    def _features(self, rows: Sequence[Feature], precision: Precision) -> list[Vector]:
        """A flat array for each row: its vector, those of its texts, or the states of their tokens, concatenated."""
        model = self.model
        inputs = self.task.collate([row.copy() for row in rows], self.tokenizer)
        inputs = {name: tensor.to(model.device) for name, tensor in inputs.items() if name not in TARGETS}
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
        with torch.autocast(model.device.type, dtype=dtype, enabled=precision != "fp32"):
            features = model.features(**inputs).float().cpu()
        tensors = list(features)
        if model.feature_type == "states":
            real = inputs["attention_mask"].bool().cpu().reshape(len(features), -1)
            tensors = [states[mask] for states, mask in zip(features, real, strict=True)]
        # The slices of a text are pooled already; several texts of a row are not.
        counts = [1 if len(features) == len(rows) else count_slices(row) or 1 for row in rows]
        texts = iter(tensors)
        return [torch.cat([next(texts).reshape(-1) for _ in range(count)]).numpy() for count in counts]
