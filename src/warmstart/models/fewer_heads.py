"""A model with fewer attention heads in each block: the weights of those that are left, and a config that says so.

Most configs derive the size of a head from the number of heads, so that blocks cannot have fewer of the same size; the
architectures that can are those with a `head_size` in `architectures`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import ARCHITECTURES, HeadSize, encoder_config, spec_of
from warmstart.models.layer_map import LayerMap
from warmstart.models.switches import count_heads, heads_joined


def removable_heads(model: nn.Module) -> list[int]:
    """How many heads can be removed from each block: numbers that the config can say.

    Raises:
        ModelError: The architecture's config can say none of them.
    """
    layers = LayerMap.of(model)
    size = _head_size(layers)
    return [number for number in range(1, count_heads(layers)) if _allowed(layers, size, number)]


def check_removable_heads(model: nn.Module, count: int) -> None:
    """Refuse a number of heads to remove from each block that the config cannot say."""
    if count not in (numbers := removable_heads(model)):
        listed = ", ".join(map(str, numbers)) or "none"
        raise ModelError(
            f"found {count} heads to remove from each block; a block has {count_heads(LayerMap.of(model))}, and its "
            f"config allows to remove {listed} of them"
        )


def choose_heads(model: nn.Module, importance: Sequence[Sequence[float]], count: int) -> dict[int, list[int]]:
    """The heads to remove from each block, by its number: the least important ones.

    Args:
        importance: That of each head, by block.
        count: How many to remove from each block; as many from each group of heads that share a key and a value.
    """
    check_removable_heads(model, count)
    layers = LayerMap.of(model)
    if _head_size(layers).bias:  # a head is then the same one in all blocks
        importance = [[sum(heads) for heads in zip(*importance, strict=True)]] * len(importance)
    heads = range(count_heads(layers))
    width = _group_width(layers.config)
    groups = [heads[first : first + width] for first in heads[::width]] if width > 1 else [heads]
    return {
        block: sorted(head for group in groups for head in sorted(group, key=own.__getitem__)[: count // len(groups)])
        for block, own in enumerate(importance)
    }


def prune_heads(model: nn.Module, heads: Mapping[int, Sequence[int]]) -> None:
    """Remove heads from the weights and the config of a model, which computes without them once saved and loaded.

    Args:
        heads: As `choose_heads` gives them: of each block by its number, from 0, as many of each.
    """
    layers = LayerMap.of(model)
    size, count, joined = _head_size(layers), count_heads(layers), heads_joined(layers)
    if set(heads) != set(range(len(layers.blocks))) or len({len(set(some)) for some in heads.values()}) != 1:
        raise ModelError("heads: expected some of each block, and as many of each")
    check_removable_heads(model, removed := len(set(heads[0])))
    width = _size_of(layers, size)
    for block, group in enumerate(layers.blocks):
        left = [head for head in range(count) if head not in heads[block]]
        numbers = torch.tensor([head * width + place for head in left for place in range(width)])
        for name in size.projections:
            projection = _linear(group.module, name)
            if projection.out_features == count * width:  # fewer: keys and values that several heads share
                _keep_outputs(projection, numbers)
        _keep_inputs(joined[block], numbers)
    if size.bias:
        if len({tuple(sorted(some)) for some in heads.values()}) != 1:
            raise ModelError("heads: expected the same of each block, since all add the same bias")
        _keep_columns(layers.blocks[0].module, size.bias, [head for head in range(count) if head not in heads[0]])
    for config in _configs_of(model, layers.config):
        _say(config, size.attribute, width, count - removed)


def _head_size(layers: LayerMap) -> HeadSize:
    if (size := spec_of(layers.config).head_size) is None:
        kind = getattr(layers.config, "model_type", "this architecture")
        able = sorted(name for name, spec in ARCHITECTURES.items() if spec.head_size)
        raise ModelError(
            f"the config of {kind} cannot say that blocks have fewer heads of the same size; those of "
            f"{', '.join(able)} can"
        )
    return size


def _allowed(layers: LayerMap, size: HeadSize, count: int) -> bool:
    """Whether blocks can have so many heads fewer."""
    left, width = count_heads(layers) - count, _group_width(layers.config)
    if width > 1 and left % (count_heads(layers) // width):
        return False
    config: Any = copy.deepcopy(layers.config)
    try:
        _say(config, size.attribute, _size_of(layers, size), left)
        type(config).from_dict(config.to_dict())
    except Exception:  # whatever this config refuses a number by
        return False
    return True


def _say(config: Any, attribute: str, width: int, heads: int) -> None:
    """Set the number of heads, of a size that stays."""
    grouped = _group_width(config) > 1
    config.num_attention_heads = heads
    setattr(config, attribute, width)
    if not grouped and getattr(config, "num_key_value_heads", None) is not None:
        config.num_key_value_heads = heads


def _group_width(config: Any) -> int:
    """How many heads share one key and one value."""
    shared = getattr(config, "num_key_value_heads", None)
    return int(config.num_attention_heads // shared) if shared else 1


def _size_of(layers: LayerMap, size: HeadSize) -> int:
    config: Any = layers.config
    return int(getattr(config, size.attribute, None) or config.hidden_size // config.num_attention_heads)


def _configs_of(model: nn.Module, config: Any) -> Iterable[Any]:
    """All configs of the encoder: parts of a model may have copies."""
    every = [config, *(encoder_config(part.config) for part in model.modules() if hasattr(part, "config"))]
    return {id(one): one for one in every if getattr(one, "model_type", None) == config.model_type}.values()


def _linear(block: nn.Module | None, name: str) -> nn.Linear:
    module = block.get_submodule(name) if block is not None else None
    assert isinstance(module, nn.Linear), "the table of architectures names linear layers"
    return module


def _keep_outputs(module: nn.Linear, numbers: torch.Tensor) -> None:
    module.weight = nn.Parameter(module.weight.detach()[numbers].clone())
    if module.bias is not None:
        module.bias = nn.Parameter(module.bias.detach()[numbers].clone())
    module.out_features = len(numbers)


def _keep_inputs(module: nn.Module, numbers: torch.Tensor) -> None:
    assert isinstance(module, nn.Linear), "the table of architectures names linear layers"
    module.weight = nn.Parameter(module.weight.detach()[:, numbers].clone())
    module.in_features = len(numbers)


def _keep_columns(block: nn.Module | None, name: str, columns: Sequence[int]) -> None:
    module = block.get_submodule(name) if block is not None else None
    assert isinstance(module, nn.Embedding), "the table of architectures names an embedding"
    module.weight = nn.Parameter(module.weight.detach()[:, columns].clone())
    module.embedding_dim = len(columns)
