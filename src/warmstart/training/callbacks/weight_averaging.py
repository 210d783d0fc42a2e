"""Averaging weights: the mean of a model after each of its last epochs, which is steadier than any one of them.

"Averaging Weights Leads to Wider Optima and Better Generalization", Izmailov et al. 2018, eq. 2, over epochs.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback


class Averaging(TrainerCallback):  # type: ignore[misc]
    """Leaves a model with the mean of its weights after each of the last epochs, in any `transformers.Trainer`.

    Args:
        last: How many epochs.
    """

    def __init__(self, last: int) -> None:
        self.last = last
        self.sums: dict[str, torch.Tensor] = {}
        self.count = 0

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        steps = len(kwargs["train_dataloader"]) / args.gradient_accumulation_steps
        left = (state.max_steps - state.global_step) / max(steps, 1)
        if epoch_over(state) and round(left) < self.last:
            self.count += 1
            for name, value in model.state_dict().items():
                value = value.detach().double() if value.is_floating_point() else value.detach().clone()
                self.sums[name] = self.sums[name] + value if name in self.sums and value.is_floating_point() else value

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if self.count:
            means = {name: s / self.count if s.is_floating_point() else s for name, s in self.sums.items()}
            model.load_state_dict(means)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {"sums": self.sums, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.sums, self.count = state["sums"], state["count"]


def epoch_over(state: Any) -> bool:
    """Whether the step that was just made is the last of an epoch, or of all."""
    return bool(abs(state.epoch - round(state.epoch)) < 1e-6 or state.global_step >= state.max_steps)
