"""Unfreezing: which layers learn when. What is frozen costs no backward pass and no memory for gradients.

A layer that begins to learn takes the rate that the schedule has by then. Which layers learn is a function of the step
alone, so that a training that goes on from a checkpoint needs nothing else to know it.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from warmstart.errors import RecipeError, nearest
from warmstart.models.layer_map import LayerMap

PLANS = ("all", "gradual", "head-first", "chain-thaw")


def learning(groups: int, plan: str, phase: int, freeze: int = 0) -> list[bool]:
    """Whether each group learns, embeddings first and head last, in a phase counted from 0.

    Args:
        plan: `all` from the start; `gradual`: the head, then one more block a phase from the top (ULMFiT, Howard and
            Ruder 2018, §3.3); `head-first`: the head alone in the first phase, then all (Kumar et al. 2022);
            `chain-thaw`: the head, then each other layer alone from the bottom, then all (Felbo et al. 2017, §3.3).
        freeze: How many of the lowest groups never learn.
    """
    if plan not in PLANS:
        raise RecipeError(f"layers.unfreeze: found {plan!r}; {nearest(plan, PLANS)}")
    if not 0 <= freeze < groups:
        raise RecipeError(
            f"layers.freeze: found {freeze}; this model has {groups} layers, so 0 to {groups - 1} is meant"
        )
    head, below = groups - 1, range(freeze, groups - 1)
    if plan == "gradual":
        chosen = set(range(max(head - phase, 0), groups))
    elif plan == "head-first" and phase == 0:
        chosen = {head}
    elif plan == "chain-thaw" and phase <= len(below):
        chosen = {[head, *below][phase]}
    else:
        chosen = set(range(groups))
    return [place in chosen and place >= freeze for place in range(groups)]


def phases(groups: int, plan: str, freeze: int = 0) -> int:
    """How many phases a plan has until nothing changes any more."""
    return {"all": 1, "head-first": 2, "gradual": groups - freeze, "chain-thaw": groups - freeze + 1}[plan]


class Unfreezing(TrainerCallback):  # type: ignore[misc]
    """Lets layers learn by a plan, in any `transformers.Trainer`: `Trainer(…, callbacks=[Unfreezing(layers)])`.

    Parameters that were frozen when it was made stay so, whatever the plan.

    Args:
        every: Optimizer steps of a phase; None for an epoch.
    """

    def __init__(self, layers: LayerMap, plan: str = "gradual", every: int | None = None, freeze: int = 0) -> None:
        self.groups = [[p for p in group.parameters.values() if p.requires_grad] for group in layers.groups]
        self.plan, self.every, self.freeze = plan, every, freeze
        self.now: list[bool] = []
        learning(len(self.groups), plan, 0, freeze)

    def set(self, phase: int) -> None:
        """Let the layers of a phase learn and hold the others still."""
        wanted = learning(len(self.groups), self.plan, phase, self.freeze)
        if wanted == self.now:
            return
        self.now = wanted
        for parameters, learns in zip(self.groups, wanted, strict=True):
            for parameter in parameters:
                parameter.requires_grad_(learns)
                if not learns:
                    parameter.grad = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._follow(state)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._follow(state)

    def _follow(self, state: Any) -> None:
        # The epoch is a fraction that comes out whole at an epoch's last step; the slack is for its rounding.
        self.set(state.global_step // self.every if self.every else int((state.epoch or 0) + 1e-6))
