"""What a training did: its steps, seconds and precision, the losses that it logged, the evaluations on dev."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from warmstart.models.precision import Precision
from warmstart.training.callbacks.early_stopping import EpochValue

LogEntry: TypeAlias = dict[str, float]
"""One entry each time the loss was logged: step, epoch, loss and its parts, learning_rate, grad_norm."""
_NAMES = ("step", "epoch", "loss", "learning_rate", "grad_norm")


@dataclass(frozen=True)
class TrainingResult:
    """What a training did."""

    steps: int
    seconds: float
    precision: Precision
    history: list[LogEntry]
    evaluations: list[EpochValue]
    """Values on dev during the training, one an epoch, where there were any."""
    dropout_kernel: str = "torch"
    """How dropout was computed: `torch` or `fast`."""
    cached_blocks: int = 0
    """Frozen blocks that were computed once for each row, without dropout."""


def training_log(log: Iterable[LogEntry]) -> list[LogEntry]:
    """The entries of the Trainer's log that are about the loss."""
    return [
        {name: entry[name] for name in (*_NAMES, *_parts(entry)) if name in entry} for entry in log if "loss" in entry
    ]


def _parts(entry: LogEntry) -> list[str]:
    return [name for name in entry if name.startswith("loss_")]
