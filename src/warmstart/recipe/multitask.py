"""The options of the stage `multitask`; never imports torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warmstart.options import Options
from warmstart.recipe.parts import Layers, Learn

LAYERS_TOGETHER = ("decay", "head_rate", "freeze", "unfreeze", "unfreeze_every")
"""Fields of `layers` that say how the shared encoder learns; the others say how each head is made."""


class Multitask(Options, serialize_by_alias=True):
    """One encoder learns several tasks at once, each with a head of its own."""

    others: Annotated[list[str], Field(alias="with", min_length=1)]
    """Recipe files of the tasks to learn: of each its task, data, window and what its head reads; the model is this
    recipe's. A task goes by the name of its file without the suffix."""
    own: bool = True
    """Whether this recipe's own task is among them, by the name `own`; without, it comes after them only."""
    sampling: Literal["proportional", "square-root", "temperature", "uniform", "annealed"] = "square-root"
    """How often each task has its turn: `proportional` to its rows, to their `square-root`, to the T-th root
    (`temperature`), all alike (`uniform`), or `annealed` from proportional towards uniform over the epochs."""
    temperature: Annotated[float, Field(ge=1)] | None = None
    """T of `sampling: temperature`: 1 is proportional, 2 the square root, and the larger, the more alike. None: 5."""
    weights: Literal["uncertainty"] | dict[str, Annotated[float, Field(gt=0)]] = {}
    """What each task's loss is multiplied by, as `{own: 2}`, 1 where it is not said; or `uncertainty`: learned."""
    learn: Learn = Learn()
    """How they are trained; an epoch is as many steps as all rows together make."""
    layers: Layers = Layers()
    """At what rate and when layers learn: `decay`, `head_rate`, `freeze`, `unfreeze`, `unfreeze_every`."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.temperature is not None and self.sampling != "temperature":
            raise ValueError(f"temperature: found {self.temperature}, and sampling is {self.sampling}; drop one")
        others = set(Layers.model_fields) - set(LAYERS_TOGETHER)
        for name in sorted(name for name in others if getattr(self.layers, name) != getattr(Layers(), name)):
            raise ValueError(f"layers.{name}: belongs to a head; say it in the recipe of its task")
        if self.layers.freeze == "encoder":
            raise ValueError("layers.freeze: found encoder, and then there is nothing to share; give a number")
        refused = {"batch_tokens": None, "rdrop": 0.0, "stop_early": None}
        for name in (name for name, none in refused.items() if getattr(self.learn, name) != none):
            raise ValueError(f"learn.{name}: found {getattr(self.learn, name)}; several tasks at once do without it")
        return self
