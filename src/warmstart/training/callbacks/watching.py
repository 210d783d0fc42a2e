"""Watching: looking at a model every so many steps of a training, which goes on as if nobody had looked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback


class Watching(TrainerCallback):  # type: ignore[misc]
    """Gathers what is seen in a model along the way of a `transformers.Trainer`, in the order of steps.

    Args:
        look: Gives what is to be kept, as plain values; it must leave weights and random numbers as they are.
        every: Steps between two looks; None for none during training.
    """

    def __init__(self, look: Callable[[], dict[str, Any]], every: int | None = None) -> None:
        self.look, self.every = look, every
        self.seen: list[dict[str, Any]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        # What is left at the end is looked at afterwards: the last weights need not be those that are kept.
        if self.every and state.global_step % self.every == 0 and state.global_step < state.max_steps:
            self.seen.append({"step": state.global_step, **self.look()})

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {"seen": self.seen}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.seen = state["seen"]
