"""Early stopping: evaluate on dev after every epoch, stop when the score no longer improves, keep the best epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import nn
from transformers import TrainerCallback

from warmstart.storage.json_files import JsonObject
from warmstart.training.callbacks.weight_averaging import is_epoch_end

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

OnEvaluate = Callable[[int, float], None]
"""Called with an epoch and the value after it; an exception that it raises ends the training."""


EpochValue: TypeAlias = dict[str, int | float | None]
"""`epoch`, `step` and the `value` after it; None where that is undefined, as a correlation can be."""


class EpochEvaluation(TrainerCallback):  # type: ignore[misc]
    """Evaluates the model of a `transformers.Trainer` after every epoch but the last, and changes nothing.

    The last is left out since the finished model is evaluated anyway.

    Args:
        evaluate: Returns how good the model is now; it must not change weights or random states.
        on_evaluate: Called with each epoch and its value; again for an epoch that is trained again after a kill.
    """

    def __init__(self, evaluate: Callable[[], float], on_evaluate: OnEvaluate) -> None:
        self.evaluate, self.report = evaluate, on_evaluate
        self.values: list[EpochValue] = []

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        **kwargs: object,
    ) -> None:
        if not is_epoch_end(state) or state.global_step >= state.max_steps:
            return
        value = evaluate_as_is(self.evaluate, model)
        if math.isfinite(value):  # the values are written as JSON
            self.values.append({"epoch": float(state.epoch), "step": state.global_step, "value": value})
        self.report(round(state.epoch), value)

    def state_dict(self) -> JsonObject:
        """What a checkpoint holds of it."""
        return {"values": self.values}

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what a checkpoint holds."""
        self.values = state["values"]


class EarlyStopping(TrainerCallback):  # type: ignore[misc]
    """Stops a `transformers.Trainer` and leaves its model with the weights of its best epoch.

    Args:
        evaluate: Returns the score of the current model; higher is better.
        patience: How many epochs without improvement are allowed in a row.
        on_evaluate: Called with each epoch and its score, except for the last one.
    """

    def __init__(self, evaluate: Callable[[], float], patience: int, on_evaluate: OnEvaluate | None = None) -> None:
        # Not named as the argument: a Trainer calls `on_evaluate` of its callbacks when it evaluates.
        self.evaluate, self.patience, self.report = evaluate, patience, on_evaluate
        self.log: Callable[[float], object] = lambda value: None
        self.values: list[EpochValue] = []
        self.best: dict[str, torch.Tensor] = {}
        self.epochs_since_best = 0

    @property
    def is_over(self) -> bool:
        """Whether the patience is used up."""
        return self.epochs_since_best >= self.patience

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        **kwargs: object,
    ) -> None:
        if not is_epoch_end(state):
            return
        value = evaluate_as_is(self.evaluate, model)
        best = max((epoch["value"] for epoch in self.values if epoch["value"] is not None), default=-math.inf)
        known = None if math.isnan(value) else value  # JSON has no NaN
        self.values.append({"epoch": float(state.epoch), "step": state.global_step, "value": known})
        if known is not None:
            self.log(known)
        if value > best or not self.best:
            self.best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            self.epochs_since_best = 0
        else:
            self.epochs_since_best += 1
        if self.is_over:
            control.should_training_stop = True
        elif self.report and state.global_step < state.max_steps:
            self.report(round(state.epoch), value)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        **kwargs: object,
    ) -> None:
        if self.best:
            model.load_state_dict(self.best)

    def state_dict(self) -> JsonObject:
        """What a checkpoint holds of it."""
        return {"values": self.values, "best": self.best, "since": self.epochs_since_best}

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what a checkpoint holds."""
        self.values, self.best, self.epochs_since_best = state["values"], state["best"], state["since"]


def evaluate_as_is(evaluate: Callable[[], float], model: nn.Module) -> float:
    """Evaluate, and leave the model in the mode that it was in."""
    was_training = model.training
    value = evaluate()
    model.train(was_training)
    return value
