"""Measuring on held-out rows after every epoch; early stopping: end when it no longer gets better, keep the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from warmstart.training.callbacks.weight_averaging import epoch_over

Measured = Callable[[int, float], None]
"""Told an epoch and how good the model was after it; what it raises ends the training."""


class Measuring(TrainerCallback):  # type: ignore[misc]
    """Measures the model of a `transformers.Trainer` after every epoch but the last, and changes nothing.

    The last is left out since the finished model is measured anyway.

    Args:
        measure: Gives how good the model is at present; it must leave weights and random numbers as they are.
        measured: Told each epoch and its value. One that is trained again after a kill is told again.
    """

    def __init__(self, measure: Callable[[], float], measured: Measured) -> None:
        self.measure, self.measured = measure, measured
        self.values: list[dict[str, float]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if not epoch_over(state) or state.global_step >= state.max_steps:
            return
        was_training = model.training
        value = self.measure()
        model.train(was_training)
        if math.isfinite(value):  # what is kept is written as JSON
            self.values.append({"epoch": float(state.epoch), "step": state.global_step, "value": value})
        self.measured(round(state.epoch), value)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {"values": self.values}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.values = state["values"]


class EarlyStop(TrainerCallback):  # type: ignore[misc]
    """Stops a `transformers.Trainer` and leaves its model with the weights of its best epoch.

    Args:
        measure: Gives how good the model is at present; higher is better.
        patience: How many epochs in a row may be no better than the best.
        measured: Told each epoch and its value, but for the last of all.
    """

    def __init__(self, measure: Callable[[], float], patience: int, measured: Measured | None = None) -> None:
        self.measure, self.patience, self.measured = measure, patience, measured
        self.tell: Callable[[float], object] = lambda value: None
        self.values: list[dict[str, Any]] = []
        self.best: dict[str, torch.Tensor] = {}
        self.since = 0

    @property
    def over(self) -> bool:
        """Whether the patience is used up."""
        return self.since >= self.patience

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if not epoch_over(state):
            return
        was_training = model.training
        value = self.measure()
        model.train(was_training)
        best = max((one["value"] for one in self.values if one["value"] is not None), default=-math.inf)
        # JSON has no word for an undefined number, as is the correlation of equal answers, but none.
        known = None if math.isnan(value) else value
        self.values.append({"epoch": float(state.epoch), "step": state.global_step, "value": known})
        if known is not None:
            self.tell(known)
        if value > best or not self.best:
            self.best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            self.since = 0
        else:
            self.since += 1
        if self.over:
            control.should_training_stop = True
        elif self.measured and state.global_step < state.max_steps:
            self.measured(round(state.epoch), value)

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if self.best:
            model.load_state_dict(self.best)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {"values": self.values, "best": self.best, "since": self.since}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.values, self.best, self.since = state["values"], state["best"], state["since"]
