"""NT-ASGD: plain SGD until the score stops improving, and from then on the mean of the weights after every step.

"Regularizing and Optimizing LSTM Language Models", Merity et al. 2018, algorithm 1, with a score after every epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import TrainerCallback

from warmstart.storage.json_files import JsonObject
from warmstart.training.callbacks.early_stopping import evaluate_as_is
from warmstart.training.callbacks.weight_averaging import is_epoch_end

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

NONMONOTONE_INTERVAL = 5
"""The paper's n: averaging starts when a score is no better than the best of those more than n epochs before."""


class NonMonotonicAveraging(TrainerCallback):  # type: ignore[misc]
    """Leaves a model with the mean of its weights after every step since its score stopped improving.

    Args:
        evaluate: Returns how good the model is now, higher is better; it must not change weights or random states.
        interval: As `NONMONOTONE_INTERVAL`.
    """

    def __init__(self, evaluate: Callable[[], float], interval: int = NONMONOTONE_INTERVAL) -> None:
        self.evaluate, self.interval = evaluate, interval
        self.scores: list[float] = []
        self.means: dict[str, torch.Tensor] = {}
        self.count = 0

    @property
    def is_averaging(self) -> bool:
        """Whether averaging has started."""
        return bool(self.means)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        **kwargs: object,
    ) -> None:
        if self.is_averaging:
            self.count += 1
            for name, weight in model.named_parameters():
                self.means[name] += (weight.detach() - self.means[name]) / self.count
        if not is_epoch_end(state) or state.global_step >= state.max_steps:
            return
        score = self._evaluate(model)
        if not self.is_averaging and score < max(self.scores[: -self.interval], default=score):
            self.means = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
        self.scores.append(score)

    def _evaluate(self, model: nn.Module) -> float:
        """The score of the weights that training would end with now, in whose place the others are put back."""
        own = {name: weight.detach().clone() for name, weight in model.named_parameters()} if self.count else {}
        self._use(model, self.means if self.count else {})
        score = evaluate_as_is(self.evaluate, model)
        self._use(model, own)
        return score

    @torch.no_grad()
    def _use(self, model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
        for name, weight in model.named_parameters():
            if name in weights:
                weight.copy_(weights[name])

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
            self._use(model, self.means)

    def state_dict(self) -> JsonObject:
        """What a checkpoint holds of it."""
        return {"scores": self.scores, "means": self.means, "count": self.count}

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what a checkpoint holds."""
        self.scores, self.means, self.count = state["scores"], state["means"], state["count"]
