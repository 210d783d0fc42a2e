"""Gradual unfreezing: which layers are trained when. A frozen layer needs no backward pass and no gradients.

A layer that is unfrozen starts with the learning rate that the schedule has by then. Which layers are trained is a
function of the step alone, so resuming needs no state for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from transformers import TrainerCallback

from warmstart.errors import RecipeError, nearest
from warmstart.models.layer_map import LayerMap

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

STRATEGIES = ("all", "gradual", "head-first", "chain-thaw")


def trainable_layers(count: int, strategy: str, phase: int, freeze: int = 0) -> list[bool]:
    """Whether each of `count` layers is trained in a phase counted from 0, embeddings first and head last.

    Args:
        strategy: `all` from the start; `gradual`: the head, then one more block per phase from the top (ULMFiT, Howard
            and Ruder 2018, §3.3); `head-first`: the head alone in the first phase, then all (Kumar et al. 2022);
            `chain-thaw`: the head, then each other layer alone from the bottom, then all (Felbo et al. 2017, §3.3).
        freeze: How many of the lowest layers are never trained.
    """
    if strategy not in STRATEGIES:
        raise RecipeError(f"layers.unfreeze: found {strategy!r}; {nearest(strategy, STRATEGIES)}")
    if not 0 <= freeze < count:
        raise RecipeError(f"layers.freeze: found {freeze}; this model has {count} layers, so expected 0 to {count - 1}")
    head, below = count - 1, range(freeze, count - 1)
    if strategy == "gradual":
        chosen = set(range(max(head - phase, 0), count))
    elif strategy == "head-first" and phase == 0:
        chosen = {head}
    elif strategy == "chain-thaw" and phase <= len(below):
        chosen = {[head, *below][phase]}
    else:
        chosen = set(range(count))
    return [index in chosen and index >= freeze for index in range(count)]


def count_phases(count: int, strategy: str, freeze: int = 0) -> int:
    """The number of phases of a strategy with `count` layers, until nothing changes any more."""
    return {"all": 1, "head-first": 2, "gradual": count - freeze, "chain-thaw": count - freeze + 1}[strategy]


class GradualUnfreezing(TrainerCallback):  # type: ignore[misc]
    """Unfreezes layers one after another, in any `transformers.Trainer`.

        Trainer(..., callbacks=[GradualUnfreezing(LayerMap.of(model), every="epoch")])

    Parameters that are already frozen when it is created stay frozen.

    Args:
        every: Length of a phase: an `epoch`, or a number of optimizer steps.
        strategy: `gradual`, `head-first`, `chain-thaw` or `all`: see `trainable_layers`.
        freeze: How many of the lowest layers are never trained.
    """

    def __init__(
        self, layers: LayerMap, every: Literal["epoch"] | int = "epoch", strategy: str = "gradual", freeze: int = 0
    ) -> None:
        self.parameters = [[p for p in group.parameters.values() if p.requires_grad] for group in layers.groups]
        self.every, self.strategy, self.freeze = every, strategy, freeze
        self.trainable: list[bool] = []
        trainable_layers(len(self.parameters), strategy, 0, freeze)  # refuses what cannot be

    def set_phase(self, phase: int) -> None:
        """Unfreeze the layers of a phase and freeze the others."""
        wanted = trainable_layers(len(self.parameters), self.strategy, phase, self.freeze)
        if wanted == self.trainable:
            return
        self.trainable = wanted
        for parameters, is_trained in zip(self.parameters, wanted, strict=True):
            for parameter in parameters:
                parameter.requires_grad_(is_trained)
                if not is_trained:
                    parameter.grad = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self._update(state)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self._update(state)

    def _update(self, state: TrainerState) -> None:
        # The epoch is a fraction that comes out whole at an epoch's last step; the slack is for its rounding.
        epoch = int((state.epoch or 0) + 1e-6)
        self.set_phase(epoch if self.every == "epoch" else state.global_step // self.every)
