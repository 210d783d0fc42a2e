"""Layer-wise learning rates: lower layers get a lower learning rate, since they hold more general knowledge.

With ξ the decay and η^k the learning rate of layer k, η^(k-1) = ξ·η^k, from the head down to the embeddings. ξ = 0.95
in "How to Fine-Tune BERT for Text Classification?" (Sun et al. 2019, eq. 4); 1/2.6 in ULMFiT (Howard and Ruder 2018,
§3.2), where it is called discriminative fine-tuning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from torch import nn

from warmstart.errors import RecipeError
from warmstart.models.layer_group import LayerGroup

ParamGroup: TypeAlias = dict[str, Any]
"""A parameter group of an optimizer: `params`, `lr` and `weight_decay`, and the name of its `layer`."""


def layer_learning_rates(
    count: int, learning_rate: float, lr_decay: float = 1.0, head_learning_rate: float | None = None
) -> list[float]:
    """The learning rate of each of `count` layers, embeddings first and head last.

    Args:
        learning_rate: That of the head, from which the others follow: the top block has `lr_decay` times this.
        head_learning_rate: A learning rate for the head alone, which changes none of the others.
    """
    if not 0 < lr_decay <= 1:
        raise RecipeError(f"layers.lr_decay: found {lr_decay}, expected a number above 0 and at most 1, as 0.95")
    rates = [learning_rate * lr_decay ** (count - 1 - index) for index in range(count)]
    if head_learning_rate is not None:
        rates[-1] = head_learning_rate
    return rates


def param_groups(layers: Sequence[LayerGroup], rates: Sequence[float], weight_decay: float = 0.0) -> list[ParamGroup]:
    """Parameter groups for any optimizer, two per layer: one for norms and biases, without weight decay."""
    groups: list[ParamGroup] = []
    for layer, rate in zip(layers, rates, strict=True):
        for decayed in (True, False):
            parameters = [p for name, p in layer.parameters.items() if has_weight_decay(name, p) == decayed]
            if parameters:
                weight = weight_decay if decayed else 0.0
                groups.append({"params": parameters, "lr": rate, "weight_decay": weight, "layer": layer.name})
    return groups


def has_weight_decay(name: str, parameter: nn.Parameter) -> bool:
    """Whether weight decay applies: not to norms and biases, which are vectors or have "bias" in their name."""
    return parameter.ndim > 1 and "bias" not in name
