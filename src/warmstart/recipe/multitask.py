"""The options of the stage `multitask`; never imports torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warmstart.options import Options
from warmstart.recipe.fields import HeadOptions
from warmstart.recipe.layers import LayerOptions
from warmstart.recipe.training import TrainingOptions

LAYERS_TOGETHER = ("lr_decay", "freeze", "unfreeze", "unfreeze_every", "lr_schedule_per_phase")
"""Fields of `layers` that apply to the shared encoder; the others belong to each task."""


class MultitaskOptions(Options, serialize_by_alias=True):
    """Multi-task training: one encoder, shared by several tasks, each with its own head."""

    others: Annotated[list[str], Field(alias="with", min_length=1)]
    """Recipe files of the other tasks. Their task, data, window and head are used; the model is that of this recipe. A
    task is named after its file, without the suffix."""
    include_own: bool = True
    """Whether this recipe's own task takes part, under the name `own`; if not, it is only trained afterwards."""
    keep_head: bool = False
    """Whether what follows goes on with the head that this recipe's own task has trained here, instead of a new one on
    the shared encoder."""
    sampling: Literal["proportional", "square-root", "temperature", "uniform", "annealed"] = "square-root"
    """How often a batch comes from each task: `proportional` to its number of rows, to the `square-root` of it or its
    T-th root (`temperature`), equally often (`uniform`), or `annealed` from proportional towards uniform over the
    epochs."""
    temperature: Annotated[float, Field(ge=1)] | None = None
    """T of `sampling: temperature`: 1 is proportional, 2 the square root, larger is closer to uniform. Default: 5."""
    loss_weights: Literal["uncertainty"] | dict[str, Annotated[float, Field(gt=0)]] = {}
    """The weight of each task's loss, such as `{own: 2}`, 1 by default; or `uncertainty`, to learn the weights."""
    training: TrainingOptions = TrainingOptions()
    """How the tasks are trained; an epoch has as many steps as the rows of all tasks need."""
    layers: LayerOptions = LayerOptions()
    """How the shared encoder is trained: `lr_decay`, `freeze`, `unfreeze`, `unfreeze_every`,
    `lr_schedule_per_phase`."""
    head: HeadOptions = HeadOptions()
    """How the heads are trained: `learning_rate`."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.temperature is not None and self.sampling != "temperature":
            raise ValueError(
                f"temperature: found {self.temperature}, but sampling is {self.sampling}; "
                "set sampling: temperature, or leave temperature out"
            )
        if self.keep_head and not self.include_own:
            raise ValueError("keep_head: found true, but include_own is false, so no head of its own is trained here")
        if self.training.fsdp:
            raise ValueError(
                "training.fsdp: found true, but several tasks are not trained on sharded weights; leave it out"
            )
        shared = {"layers": LAYERS_TOGETHER, "head": ("learning_rate",)}
        for section, names in shared.items():
            options = getattr(self, section)
            default = type(options)()
            for name in sorted(set(type(options).model_fields) - set(names)):
                if getattr(options, name) != getattr(default, name):
                    raise ValueError(f"{section}.{name}: belongs to one task; put it into the recipe of that task")
        if self.layers.freeze == "encoder":
            raise ValueError("layers.freeze: found encoder, which leaves nothing to share; expected a number of layers")
        unset = dict.fromkeys(("batch_tokens", "slices_per_text", "early_stopping_patience"))
        refused = {**unset, "r_drop": 0.0, "loss": "auto"}
        for name in (name for name, none in refused.items() if getattr(self.training, name) != none):
            raise ValueError(
                f"training.{name}: found {getattr(self.training, name)}; multi-task training "
                "does not support it; leave it out"
            )
        return self
