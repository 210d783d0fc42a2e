"""A model with some of its blocks removed: those that are left follow each other, and the config says how many."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import nn

from warmstart.errors import ModelError, RecipeError
from warmstart.models.architectures import spec_of
from warmstart.models.layer_map import LayerMap

PLACES = ("layer_idx", "layer_id")
"""Attributes in which a module holds the number of its block."""
COUNTS = ("num_blocks",)
"""Attributes of a config with the number of blocks, beside `num_hidden_layers`."""
PER_BLOCK = ("layer_types", "attention_window")
"""Attributes of a config that have a value for each block."""
LayerChoice: TypeAlias = Literal["lowest", "spread"]


def keep_layers(model: nn.Module, count: int, choice: LayerChoice = "lowest") -> list[int]:
    """Remove all blocks of a model but some, in place; returns the numbers of those that are kept, from 0.

    Args:
        choice: The `lowest` blocks, or blocks `spread` evenly from the first to the last.
    """
    try:
        blocks = _removable_blocks(model)
    except ModelError as error:
        raise RecipeError(f"layers.num_layers: {error}") from None
    if count > len(blocks):
        raise RecipeError(f"layers.num_layers: found {count}, but the encoder has {len(blocks)} blocks")
    kept = chosen_layers(len(blocks), count, choice)
    _keep(model, blocks, kept)
    return kept


def remove_blocks(model: nn.Module, removed: Collection[int]) -> None:
    """Remove blocks of a model by their numbers, from 0, in place."""
    blocks = _removable_blocks(model)
    if not set(removed) < set(range(len(blocks))):
        raise ModelError(f"blocks {sorted(removed)}: this model has {len(blocks)}, of which one must be left")
    _keep(model, blocks, [number for number in range(len(blocks)) if number not in removed])


def chosen_layers(blocks: int, count: int, choice: LayerChoice) -> list[int]:
    """The numbers of the blocks that are kept, from 0."""
    if choice == "lowest" or count == 1:
        return list(range(count))
    return [round(float(number)) for number in np.linspace(0, blocks - 1, count)]


def _removable_blocks(model: nn.Module) -> list[nn.Module]:
    """The blocks, where each is a module of its own in a list, and the config says how many there are."""
    layers = LayerMap.of(model)
    blocks = [group.module for group in layers.blocks if group.module is not None]
    differ = layers.config is not None and spec_of(layers.config).blocks_differ
    shared = any(group.runs != 1 for group in layers.blocks)
    if differ or shared or not _lists_of(model, blocks) or not _configs_of(model, blocks):
        kind = getattr(layers.config, "model_type", "this architecture")
        raise ModelError(f"the blocks of {kind} are not a list of which some can be removed")
    return blocks


def _keep(model: nn.Module, blocks: list[nn.Module], kept: Sequence[int]) -> None:
    for parent, name in _lists_of(model, blocks):
        setattr(parent, name, nn.ModuleList([blocks[number] for number in kept]))
    for place, number in enumerate(kept):
        for part in blocks[number].modules():
            for name in PLACES:
                if hasattr(part, name):
                    setattr(part, name, place)
    for config in _configs_of(model, blocks):
        config.num_hidden_layers = len(kept)
        for name in COUNTS:
            if getattr(config, name, None) == len(blocks):
                setattr(config, name, len(kept))
        for name in PER_BLOCK:
            values = getattr(config, name, None)
            if isinstance(values, list) and len(values) == len(blocks):
                setattr(config, name, [values[number] for number in kept])


def _lists_of(model: nn.Module, blocks: list[nn.Module]) -> list[tuple[nn.Module, str]]:
    """Where the list of blocks is: a module, and the name of its attribute."""
    return [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and list(child) == blocks
    ]


def _configs_of(model: nn.Module, blocks: list[nn.Module]) -> list[Any]:
    """The configs that say how many blocks there are."""
    configs: dict[int, Any] = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    return [config for config in configs.values() if getattr(config, "num_hidden_layers", None) == len(blocks)]
