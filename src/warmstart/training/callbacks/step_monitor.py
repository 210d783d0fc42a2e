"""Monitoring: measure a model every N steps, without affecting its training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from transformers import TrainerCallback

from warmstart.storage.json_files import JsonObject

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


class StepMonitor(TrainerCallback):  # type: ignore[misc]
    """Collects measurements of the model of a `transformers.Trainer`, in the order of steps.

    Args:
        measure: Returns a measurement as plain values; it must not change weights or random states.
        every: Steps between two measurements; None for none during training.
    """

    def __init__(self, measure: Callable[[], JsonObject], every: int | None = None) -> None:
        self.measure, self.every = measure, every
        self.measurements: list[JsonObject] = []

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        # The end is measured afterwards: the last weights need not be those that are kept.
        if self.every and state.global_step % self.every == 0 and state.global_step < state.max_steps:
            self.measurements.append({"step": state.global_step, **self.measure()})

    def state_dict(self) -> JsonObject:
        """What a checkpoint holds of it."""
        return {"seen": self.measurements}

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what a checkpoint holds."""
        self.measurements = state["seen"]
