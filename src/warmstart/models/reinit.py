"""Starting a part of a pretrained model anew: its topmost blocks, its norms, its last layer.

The topmost blocks are the most bound to what the encoder was pretrained on; drawing them anew steadies the training on
small data ("Revisiting Few-sample BERT Fine-tuning", Zhang et al. 2021, §5).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from warmstart.errors import RecipeError
from warmstart.models.layer_map import LayerMap


@torch.no_grad()
def draw(model: Any, parameters: Mapping[str, nn.Parameter]) -> set[str]:
    """Give some of a model's parameters the values that a new model of its config begins with; gives their names."""
    drawn = dict(type(model)._from_config(copy.deepcopy(model.config)).named_parameters())
    for name, parameter in parameters.items():
        parameter.copy_(drawn[name])
    return set(parameters)


@torch.no_grad()
def reinitialize(model: Any, blocks: int = 0, norms: bool = False, head: str = "random") -> set[str]:
    """Draw parts of a model anew from the random state; gives the names of the parameters that were changed.

    Args:
        blocks: How many of the topmost blocks; with any, what the head has from pretraining (a pooler) goes too.
        norms: Set the weight of every layer norm to 1 and its bias to 0.
        head: `zero` puts the last layer to zero, so that every answer is equally likely at first.
    """
    layers = LayerMap.of(model)
    changed = _draw(model, layers, blocks) if blocks else set()
    if norms:
        changed |= _reset_norms(model)
    if head == "zero":
        name, last = _last_layer(model, layers)
        for key, parameter in last.named_parameters(prefix=name):
            parameter.zero_()
            changed.add(key)
    return changed


def _draw(model: Any, layers: LayerMap, blocks: int) -> set[str]:
    if blocks > len(layers.blocks):
        raise RecipeError(f"layers.reinit_top: found {blocks}; this encoder has {len(layers.blocks)} blocks")
    return draw(model, {name: p for group in layers.groups[-1 - blocks :] for name, p in group.parameters.items()})


def _reset_norms(model: Any) -> set[str]:
    changed = set()
    for name, module in model.named_modules():
        if "norm" in type(module).__name__.lower():
            for key, parameter in module.named_parameters(prefix=name, recurse=False):
                parameter.fill_(0.0 if key.endswith("bias") else 1.0)
                changed.add(key)
    return changed


def _last_layer(model: Any, layers: LayerMap) -> tuple[str, nn.Module]:
    """The layer of the head that gives the answers: its last linear one with an output a label."""
    wanted = model.config.num_labels
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and module.out_features == wanted
        and f"{name}.weight" in layers.head.parameters
    ]
    if not found:
        raise RecipeError(f"head.init: {type(model).__name__} has no last layer with {wanted} outputs; set random")
    return found[-1]
