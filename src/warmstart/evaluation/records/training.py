"""`history.json` of a stage: what a training did."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from warmstart.evaluation.records.files import OPTIONAL, Number
from warmstart.evaluation.records.final_model import FinalModelRecord
from warmstart.evaluation.records.linear_probe import ProbeRecord
from warmstart.text.windows import Truncation, Window

FILE = "history.json"

RuleValue: TypeAlias = str | int | float | bool
"""What a field can be set to by a rule."""
LogEntry: TypeAlias = dict[str, Number]
"""What was logged at a step: `step`, `epoch`, `loss` and what else the training logs."""
DevEntry: TypeAlias = dict[str, Number | None]
"""What was measured on dev after an epoch: `epoch`, `step`, `value`, which is None where it is undefined."""


@dataclass(frozen=True)
class WindowRecord(Window):
    """The window that texts were seen through, and what it truncated of the training rows."""

    train: Truncation = field(default_factory=Truncation)

    @classmethod
    def of(cls, window: Window, train: Truncation) -> WindowRecord:
        """The record of a window and what it truncated."""
        return cls(**asdict(window), train=train)


@dataclass(frozen=True)
class RuleRecord:
    """A field that the recipe left open and a rule decided."""

    field: str
    value: RuleValue
    reason: str

    @property
    def sentence(self) -> str:
        """The field as a recipe has it."""
        value = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"{self.field}: {json.dumps(value, ensure_ascii=False) if ' ' in value else value}"


@dataclass(frozen=True)
class TrainingRecord:
    """What a fine-tuning did."""

    steps: int
    seconds: float
    precision: str
    window: WindowRecord
    new_parameters: list[str]
    """Parameters that did not come with the pretrained model."""
    unused_tensors: list[str]
    """Tensors of the pretrained model that were not used."""
    layers: list[str]
    """The name of each layer from the bottom up; empty text where it has no parameters."""
    history: list[LogEntry]
    """One entry each time the loss was logged."""
    measured: list[DevEntry]
    """Where dev was measured during training, one entry per epoch."""
    linear_probe: ProbeRecord | None = field(default=None, metadata=OPTIONAL)
    """The linear probe that the head started from."""
    final_model: FinalModelRecord | None = field(default=None, metadata=OPTIONAL)
    """How the final model was chosen, where there was a choice."""
    rules: list[RuleRecord] = field(default_factory=list, metadata=OPTIONAL)
    """Fields that the recipe left open, with their values."""
    dropout_kernel: str = field(default="torch", metadata=OPTIONAL)
    """How dropout was computed: `torch` or `fast`."""
    cached_blocks: int = field(default=0, metadata=OPTIONAL)
    """Frozen blocks that were computed once for each row, without dropout."""


@dataclass(frozen=True)
class TaskTrainingRecord:
    """What a multi-task training did with one of its tasks."""

    rows: int
    window: WindowRecord
    new_parameters: list[str]
    unused_tensors: list[str]


@dataclass(frozen=True)
class MultitaskTrainingRecord:
    """What a training of several tasks did."""

    steps: int
    seconds: float
    precision: str
    history: list[LogEntry]
    weights: dict[str, float]
    """The weight of each task's loss at the end."""
    tasks: dict[str, TaskTrainingRecord]


@dataclass(frozen=True)
class StageRecord:
    """`stage.json`: what a run keeps of a stage before its fine-tuning."""

    store: str
    """The stage's folder in the store."""
    metrics: dict[str, object] | None = field(default=None, metadata=OPTIONAL)
    """What was measured, by part, and by task where there were several."""
    training: TrainingRecord | MultitaskTrainingRecord | None = field(default=None, metadata=OPTIONAL)
