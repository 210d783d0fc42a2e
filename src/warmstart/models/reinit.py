"""Re-initializing parts of a pretrained model: its top blocks, its norms, its last layer.

The top blocks are the most specific to what the encoder was pretrained on; re-initializing them makes training on small
data more stable ("Revisiting Few-sample BERT Fine-tuning", Zhang et al. 2021, §5).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from warmstart.errors import RecipeError
from warmstart.models.layer_map import LayerMap

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@torch.no_grad()
def reinitialize_parameters(model: PreTrainedModel, parameters: Mapping[str, nn.Parameter]) -> set[str]:
    """Give some of a model's parameters the values of a new model of its config; returns their names."""
    new = dict(type(model)._from_config(copy.deepcopy(model.config)).named_parameters())
    for name, parameter in parameters.items():
        parameter.copy_(new[name])
    return set(parameters)


@torch.no_grad()
def reinitialize(model: PreTrainedModel, blocks: int = 0, norms: bool = False, zero_head: bool = False) -> set[str]:
    """Re-initialize parts of a model from the random state; returns the names of the parameters that were changed.

    Args:
        blocks: How many of the top blocks; with any, what the head has from pretraining (a pooler) is included.
        norms: Set the weight of every layer norm to 1 and its bias to 0.
        zero_head: Set the last layer to zero, so that all answers are equally likely at first.
    """
    layers = LayerMap.of(model)
    changed = _reinitialize_blocks(model, layers, blocks) if blocks else set()
    if norms:
        changed |= _reset_norms(model)
    if zero_head:
        name, last = _last_layer(model, layers)
        for key, parameter in last.named_parameters(prefix=name):
            parameter.zero_()
            changed.add(key)
    return changed


def _reinitialize_blocks(model: PreTrainedModel, layers: LayerMap, blocks: int) -> set[str]:
    if blocks > len(layers.blocks):
        raise RecipeError(f"layers.reinit_top: found {blocks}; this encoder has {len(layers.blocks)} blocks")
    parameters = {name: p for group in layers.groups[-1 - blocks :] for name, p in group.parameters.items()}
    return reinitialize_parameters(model, parameters)


def _reset_norms(model: PreTrainedModel) -> set[str]:
    changed = set()
    for name, module in model.named_modules():
        if "norm" in type(module).__name__.lower():
            for key, parameter in module.named_parameters(prefix=name, recurse=False):
                parameter.fill_(0.0 if key.endswith("bias") else 1.0)
                changed.add(key)
    return changed


def _last_layer(model: PreTrainedModel, layers: LayerMap) -> tuple[str, nn.Module]:
    """The layer of the head that gives the logits: its last linear one with an output for each label."""
    wanted = model.config.num_labels
    candidates = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and module.out_features == wanted
        and f"{name}.weight" in layers.head.parameters
    ]
    if not candidates:
        raise RecipeError(f"head.init: {type(model).__name__} has no last layer with {wanted} outputs; set random")
    return candidates[-1]
