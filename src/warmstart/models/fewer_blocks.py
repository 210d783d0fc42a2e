"""A model with fewer blocks: those that are left follow each other, and the config says how many there are."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import encoder_config
from warmstart.models.layer_map import LayerMap

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PER_LAYER = ("layer_types", "attention_window")
"""Fields of a config that may be a list with an entry for each block."""


def remove_blocks(model: PreTrainedModel, blocks: Collection[int]) -> None:
    """Remove blocks from a model, in place; whether the rest still fits together is to be tested after loading it."""
    layers = LayerMap.of(model)
    count, config = len(layers.blocks), encoder_config(model.config)
    if layers.depth != count:
        raise ModelError("its blocks share their weights, so that none can be removed alone")
    if not set(blocks) < set(range(count)):
        raise ModelError(f"blocks {sorted(blocks)}: this model has {count}, of which one must be left")
    own = [group.module for group in layers.blocks]
    stack = next(
        (module for module in model.modules() if isinstance(module, nn.ModuleList) and list(module) == own), None
    )
    if stack is None or getattr(config, "num_hidden_layers", None) != count:
        raise ModelError("its config does not say how many blocks it has, so that fewer cannot be loaded")
    for block in sorted(blocks, reverse=True):
        del stack[block]
    config.num_hidden_layers = count - len(blocks)
    for name in PER_LAYER:
        values = getattr(config, name, None)
        if isinstance(values, list) and len(values) == count:
            setattr(config, name, [value for number, value in enumerate(values) if number not in blocks])
