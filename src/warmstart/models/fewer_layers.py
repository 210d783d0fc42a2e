"""An encoder with some of its blocks removed: a smaller student, made of a model's own layers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from torch import nn

from warmstart.errors import RecipeError
from warmstart.models.architectures import spec_of
from warmstart.models.layer_map import LayerMap

PLACES = ("layer_idx", "layer_id")
"""Attributes in which a module holds the number of its block."""
PER_BLOCK = ("layer_types", "attention_window")
"""Attributes of a config that have a value for each block."""
LayerChoice: TypeAlias = Literal["lowest", "spread"]


def keep_layers(model: nn.Module, count: int, choice: LayerChoice = "lowest") -> list[int]:
    """Remove all blocks of a model but some, in place; returns the numbers of those that are kept, from 0.

    Args:
        choice: The `lowest` blocks, or blocks `spread` evenly from the first to the last.
    """
    layers = LayerMap.of(model)
    blocks = [group.module for group in layers.blocks if group.module is not None]
    holders = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and list(child) == blocks
    ]
    configs: dict[int, Any] = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    counted = [config for config in configs.values() if getattr(config, "num_hidden_layers", None) == len(blocks)]
    differ = layers.config is not None and spec_of(layers.config).blocks_differ
    if differ or not holders or not counted or any(group.runs != 1 for group in layers.blocks):
        kind = getattr(layers.config, "model_type", "this architecture")
        raise RecipeError(f"layers.num_layers: the blocks of {kind} are not a list of which some can be removed")
    if count > len(blocks):
        raise RecipeError(f"layers.num_layers: found {count}, but the encoder has {len(blocks)} blocks")
    kept = chosen_layers(len(blocks), count, choice)
    for parent, name in holders:
        setattr(parent, name, nn.ModuleList([blocks[number] for number in kept]))
    for place, number in enumerate(kept):
        for part in blocks[number].modules():
            for name in PLACES:
                if hasattr(part, name):
                    setattr(part, name, place)
    for config in counted:
        config.num_hidden_layers = count
        for name in PER_BLOCK:
            values = getattr(config, name, None)
            if isinstance(values, list) and len(values) == len(blocks):
                setattr(config, name, [values[number] for number in kept])
    return kept


def chosen_layers(blocks: int, count: int, choice: LayerChoice) -> list[int]:
    """The numbers of the blocks that are kept, from 0."""
    if choice == "lowest" or count == 1:
        return list(range(count))
    return [round(float(number)) for number in np.linspace(0, blocks - 1, count)]
