"""The section `layers` of a recipe; never imports torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from warmstart.options import Options
from warmstart.recipe.fields import Fraction


class LoraOptions(Options):
    """Low-rank adapters: products of two small matrices, trained alongside the weights of the frozen blocks."""

    rank: Annotated[int, Field(ge=1)] = 8
    """Rank of the adapters (`r` in `peft`)."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """Scaling factor of the adapters, which is divided by their rank. Default: twice the rank."""
    dropout: Fraction = 0.0
    """Dropout on the inputs of the adapters."""


class LayerOptions(Options):
    """Which layers are trained, when, at which learning rate, and which are re-initialized."""

    lr_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Layer-wise learning rate decay: each layer's learning rate is that of the layer above it times this factor, from
    the head down to the embeddings (discriminative fine-tuning). With 1, all layers have the same learning rate."""
    freeze: Annotated[int, Field(ge=0)] | Literal["encoder"] = 0
    """How many of the lowest layers to freeze: 1 freezes the embeddings, 2 also the first block. `encoder` freezes
    everything below the head; the features are then computed once, without dropout, and cached on disk."""
    cache_frozen: bool | None = None
    """Whether the output of frozen blocks is computed once for each row, without dropout, and cached on disk, instead
    of in every epoch. Default: wherever `freeze` names a block and each row is read twice or more, if the architecture
    allows it."""
    unfreeze: Literal["all", "gradual", "head-first", "chain-thaw"] = "all"
    """When layers are unfrozen: `all` from the start; `gradual`: first the head, then one more block per phase, from
    the top down; `head-first`: first the head alone, then all layers; `chain-thaw`: first the head, then each layer
    alone, from the bottom up, then all."""
    unfreeze_every: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps per phase of `unfreeze`. Default: one epoch."""
    lr_schedule_per_phase: bool | None = None
    """Whether each phase of `unfreeze` has a learning rate schedule of its own, with a warm-up, as in ULMFiT, instead
    of one schedule over the whole training. Default: `true` with `unfreeze: gradual`, otherwise `false`."""
    num_layers: Annotated[int, Field(ge=1)] | None = None
    """How many of the encoder's blocks to keep; the others are removed before training, which gives a smaller and
    faster model. Default: all."""
    layer_choice: Literal["lowest", "spread"] = "lowest"
    """Which blocks `num_layers` keeps: the `lowest`, or blocks `spread` evenly from the first to the last."""
    reinit_top: Annotated[int, Field(ge=0)] = 0
    """How many of the top blocks to re-initialize before training, together with the pooler."""
    reinit_norms: bool = False
    """Whether to re-initialize every layer norm, with weight 1 and bias 0."""
    lora: LoraOptions | None = None
    """Train low-rank adapters instead of the weights of the blocks; requires `peft`."""

    @field_validator("freeze", mode="before")
    @classmethod
    def _a_number_or_the_encoder(cls, value: object) -> object:
        if value != "encoder" and (type(value) is not int or value < 0):
            raise ValueError("expected an integer of 0 or more, or encoder")
        return value

    @model_validator(mode="after")
    def _a_frozen_encoder_is_not_trained(self) -> Self:
        if self.freeze == "encoder" and (self.unfreeze != "all" or self.lora or self.reinit_top):
            conflict = next(
                name for name in ("lora", "reinit_top", "unfreeze") if getattr(self, name) not in (None, 0, "all")
            )
            raise ValueError(f"freeze: encoder freezes everything below the head; leave {conflict} out")
        return self

    @model_validator(mode="after")
    def _caching_needs_frozen_blocks(self) -> Self:
        if self.freeze == "encoder" and self.cache_frozen is False:
            raise ValueError("cache_frozen: found false, but freeze: encoder trains on cached features; leave it out")
        if self.cache_frozen and (self.lora or self.freeze in (0, 1)):
            reason = "lora trains every block" if self.lora else f"freeze: {self.freeze} freezes no block"
            raise ValueError(f"cache_frozen: found true, but {reason}; leave it out, or set freeze to 2 or more")
        return self

    @model_validator(mode="after")
    def _phases_need_unfreezing(self) -> Self:
        if self.lr_schedule_per_phase and self.unfreeze == "all":
            raise ValueError(
                "lr_schedule_per_phase: found true, but unfreeze is all, which has no phases; expected unfreeze: "
                "gradual, head-first or chain-thaw"
            )
        return self

    @property
    def schedules_phases(self) -> bool:
        """Whether each phase has a learning rate schedule of its own."""
        given = self.lr_schedule_per_phase
        return self.unfreeze == "gradual" if given is None else given
