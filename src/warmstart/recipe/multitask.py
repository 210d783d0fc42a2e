"""The options of the stage `multitask`; never imports torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warmstart.options import Options
from warmstart.recipe.fields import Head, Layers, Training

LAYERS_TOGETHER = ("lr_decay", "freeze", "unfreeze", "unfreeze_every")
"""Fields of `layers` that say how the shared encoder is trained; the others belong to each task."""


class Multitask(Options, serialize_by_alias=True):
    """One encoder learns several tasks at once, each with a head of its own."""

    others: Annotated[list[str], Field(alias="with", min_length=1)]
    """Recipe files of the tasks to learn: of each its task, data, window and what its head reads; the model is this
    recipe's. A task goes by the name of its file without the suffix."""
    include_own: bool = True
    """Whether this recipe's own task is among them, by the name `own`; if not, it only comes after them."""
    sampling: Literal["proportional", "square-root", "temperature", "uniform", "annealed"] = "square-root"
    """How often each task has its turn: `proportional` to its rows, to their `square-root`, to the T-th root
    (`temperature`), all alike (`uniform`), or `annealed` from proportional towards uniform over the epochs."""
    temperature: Annotated[float, Field(ge=1)] | None = None
    """T of `sampling: temperature`: 1 is proportional, 2 the square root, and the larger, the more alike. None: 5."""
    loss_weights: Literal["uncertainty"] | dict[str, Annotated[float, Field(gt=0)]] = {}
    """What each task's loss is multiplied by, as `{own: 2}`, 1 where it is not said; or `uncertainty`: learned."""
    training: Training = Training()
    """How they are trained; an epoch is as many steps as all rows together make."""
    layers: Layers = Layers()
    """How the shared encoder is trained: `lr_decay`, `freeze`, `unfreeze`, `unfreeze_every`."""
    head: Head = Head()
    """How the heads are trained: `learning_rate`."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.temperature is not None and self.sampling != "temperature":
            raise ValueError(f"temperature: found {self.temperature}, and sampling is {self.sampling}; drop one")
        shared = {"layers": LAYERS_TOGETHER, "head": ("learning_rate",)}
        for section, names in shared.items():
            given = getattr(self, section)
            default = type(given)()
            for name in sorted(set(type(given).model_fields) - set(names)):
                if getattr(given, name) != getattr(default, name):
                    raise ValueError(f"{section}.{name}: belongs to one task; put it into the recipe of that task")
        if self.layers.freeze == "encoder":
            raise ValueError("layers.freeze: found encoder, and then there is nothing to share; give a number")
        refused = {"batch_tokens": None, "r_drop": 0.0, "early_stopping_patience": None}
        for name in (name for name, none in refused.items() if getattr(self.training, name) != none):
            raise ValueError(
                f"training.{name}: found {getattr(self.training, name)}; several tasks at once do without it"
            )
        return self
