"""Weight averaging: the mean of a model's weights after each of its last epochs, more stable than any one of them.

"Averaging Weights Leads to Wider Optima and Better Generalization", Izmailov et al. 2018, eq. 2, over epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import TrainerCallback

from warmstart.storage.json_files import JsonObject

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


class WeightAveraging(TrainerCallback):  # type: ignore[misc]
    """Leaves a model with the mean of its weights after each of the last epochs, in any `transformers.Trainer`.

    Args:
        last_epochs: How many epochs.
    """

    def __init__(self, last_epochs: int) -> None:
        self.last_epochs = last_epochs
        self.sums: dict[str, torch.Tensor] = {}
        self.count = 0

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        train_dataloader: DataLoader[object],
        **kwargs: object,
    ) -> None:
        steps = len(train_dataloader) / args.gradient_accumulation_steps
        left = (state.max_steps - state.global_step) / max(steps, 1)
        if is_epoch_end(state) and round(left) < self.last_epochs:
            self.count += 1
            for name, value in model.state_dict().items():
                value = value.detach().double() if value.is_floating_point() else value.detach().clone()
                self.sums[name] = self.sums[name] + value if name in self.sums and value.is_floating_point() else value

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        **kwargs: object,
    ) -> None:
        if self.count:
            means = {name: s / self.count if s.is_floating_point() else s for name, s in self.sums.items()}
            model.load_state_dict(means)

    def state_dict(self) -> JsonObject:
        """What a checkpoint holds of it."""
        return {"sums": self.sums, "count": self.count}

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what a checkpoint holds."""
        self.sums, self.count = state["sums"], state["count"]


def is_epoch_end(state: TrainerState) -> bool:
    """Whether the step that was just made is the last of an epoch, or of all."""
    return bool(abs(state.epoch - round(state.epoch)) < 1e-6 or state.global_step >= state.max_steps)
