"""What a training takes: a model, a task and rows, and the callbacks whose state its checkpoints hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import nn

from warmstart.errors import RecipeError
from warmstart.models.lower_blocks import LowerBlocks
from warmstart.training.batches import Rows
from warmstart.training.callbacks import (
    EarlyStopping,
    EpochEvaluation,
    NonMonotonicAveraging,
    StepMonitor,
    WeightAveraging,
)
from warmstart.training.callbacks.early_stopping import OnEvaluate
from warmstart.training.carried_state import CarriedState
from warmstart.training.checkpoint_state import StateDict
from warmstart.training.settings import NT_ASGD, Settings
from warmstart.training.streams import StreamRows
from warmstart.training.task_sampling import MultiTaskRows
from warmstart.training.trainable_task import TrainableTask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class TrainingJob:
    """What is trained, on which rows, and how."""

    model: nn.Module
    task: TrainableTask
    tokenizer: PreTrainedTokenizerBase | None
    """None where the task brings its own, as several tasks do."""
    rows: Rows | MultiTaskRows | StreamRows
    """The task's features, each with its number as `row`."""
    settings: Settings
    location: Callable[[int], object] = lambda row: f"row {row}"
    """Where the row of a number comes from, for messages."""
    lower_blocks: LowerBlocks | None = None
    """The frozen blocks whose output is stored with the rows (`given_states`)."""


@dataclass(frozen=True)
class TrainingHooks:
    """What is called during a training; nothing by default."""

    evaluate: Callable[[], float] | None = None
    """Returns how good the model is now, on rows that it is not trained on."""
    on_evaluate: OnEvaluate | None = None
    """Called after every epoch but the last with the value of `evaluate`."""
    monitor: StepMonitor | None = None
    """Measures the model every so many steps."""


class StatefulCallback(Protocol):
    """A callback whose state checkpoints hold."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state: StateDict) -> None: ...


CARRIED = "carried_state"
"""The name of the carried state in checkpoints."""


def stateful_callbacks(
    settings: Settings, hooks: TrainingHooks, carries_state: bool = False
) -> dict[str, StatefulCallback]:
    """The callbacks that decide which weights are kept, or evaluate, by the names that they have in checkpoints.

    Args:
        carries_state: Whether the model's state is carried from step to step.
    """
    callbacks: dict[str, StatefulCallback] = {CARRIED: CarriedState()} if carries_state else {}
    evaluate, on_evaluate = hooks.evaluate, hooks.on_evaluate
    choosing = {
        "training.average_last_epochs": settings.average_last_epochs > 1,
        "training.early_stopping_patience": settings.early_stopping_patience is not None,
        f"training.optimizer: {NT_ASGD}": settings.optimizer == NT_ASGD,
    }
    if sum(choosing.values()) > 1:
        names = " and ".join(name for name, chooses in choosing.items() if chooses)
        raise RecipeError(f"{names} both choose the weights that are kept; leave one of them out")
    if settings.optimizer == NT_ASGD:
        if evaluate is None:
            raise RecipeError(
                f"training.optimizer: {NT_ASGD} watches the score on dev rows, and there are none; set data.dev, or "
                "data.split.dev: 0.1"
            )
        callbacks[NT_ASGD] = NonMonotonicAveraging(evaluate)
    if settings.early_stopping_patience is not None:
        if evaluate is None:
            raise RecipeError(
                "training.early_stopping_patience: there are no dev rows; set data.dev, or data.split.dev: 0.1"
            )
        callbacks["early_stopping"] = EarlyStopping(evaluate, settings.early_stopping_patience, on_evaluate)
    else:
        if settings.average_last_epochs > 1:
            callbacks["average"] = WeightAveraging(settings.average_last_epochs)
        if evaluate and on_evaluate:
            callbacks["measuring"] = EpochEvaluation(evaluate, on_evaluate)
    if hooks.monitor:
        callbacks["watch"] = hooks.monitor
    return callbacks
