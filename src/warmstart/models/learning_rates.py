"""Layer-wise learning rates: the lower a layer, the slower it learns, since what it knows is more general.

With ξ the decay and η^k the rate of layer k, η^(k-1) = ξ·η^k, from the head down to the embeddings. ξ = 0.95 in
"How to Fine-Tune BERT for Text Classification?" (Sun et al. 2019, eq. 4); 1/2.6 in ULMFiT (Howard and Ruder 2018,
§3.2), where it is called discriminative fine-tuning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warmstart.errors import RecipeError

if TYPE_CHECKING:
    from warmstart.models.layer_map import Group


def layer_rates(count: int, rate: float, decay: float = 1.0, head_rate: float | None = None) -> list[float]:
    """The rate of each of `count` groups, embeddings first and head last.

    Args:
        rate: The head's rate, from which those below follow: the topmost block learns at `decay` times it.
        head_rate: A rate for the head alone, which changes none of the others.
    """
    if not 0 < decay <= 1:
        raise RecipeError(f"layers.lr_decay: found {decay}, expected a number above 0 and at most 1, as 0.95")
    rates = [rate * decay ** (count - 1 - place) for place in range(count)]
    if head_rate is not None:
        rates[-1] = head_rate
    return rates


def param_groups(groups: Sequence[Group], rates: Sequence[float], weight_decay: float = 0.0) -> list[dict[str, Any]]:
    """Parameter groups for any optimizer, two a layer: norms and biases are not decayed, the rest is."""
    found = []
    for group, rate in zip(groups, rates, strict=True):
        for decayed in (True, False):
            parameters = [p for name, p in group.parameters.items() if decays(name, p) == decayed]
            if parameters:
                weight = weight_decay if decayed else 0.0
                found.append({"params": parameters, "lr": rate, "weight_decay": weight, "layer": group.name})
    return found


def decays(name: str, parameter: Any) -> bool:
    """Whether weight decay applies: not to norms and biases, which are vectors or are called so."""
    return parameter.ndim > 1 and "bias" not in name
