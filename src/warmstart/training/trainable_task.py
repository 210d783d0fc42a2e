"""What a training needs of a task: a protocol, so that several tasks can be trained as if they were one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from warmstart.tasks.base import Batch, LossFunction, Outputs

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


class TrainableTask(Protocol):
    """A task, or several together; `VariesByEpoch`, `CountsLossItems`, `ComparesPasses` and so on are optional."""

    @property
    def name(self) -> str: ...

    def collate(self, features: Sequence[Any], tokenizer: PreTrainedTokenizerBase) -> Batch: ...

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None: ...


@runtime_checkable
class ComparesPasses(Protocol):
    """Has outputs of which two passes over the same rows can be compared, as R-Drop does."""

    @property
    def supports_r_drop(self) -> bool: ...

    def r_drop_logits(self, outputs: Outputs, labels: torch.Tensor | None) -> torch.Tensor: ...


@runtime_checkable
class ComparesRows(Protocol):
    """Has rows that can be compared by their labels, as a supervised contrastive loss does."""

    @property
    def has_row_labels(self) -> bool: ...
