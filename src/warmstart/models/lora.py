"""LoRA: the encoder is frozen, and a product of two small matrices is trained alongside each of its weights.

W + (α/r)·B·A with B of r columns and A of r rows ("LoRA", Hu et al. 2022, §4.1). The engine is `peft`; after training
the products are merged into the weights, so that what is saved is a plain model again.
"""

from __future__ import annotations

import warnings
from types import ModuleType

from torch import nn

from warmstart.errors import MissingExtraError, RecipeError
from warmstart.models.layer_map import LayerMap


def add_lora(model: nn.Module, rank: int, alpha: float | None = None, dropout: float = 0.0) -> None:
    """Add LoRA to every linear layer of the blocks, in place; the head is trained as usual, everything else is frozen.

    Args:
        alpha: Scale of the product, which is divided by the rank; None for twice the rank.
    """
    peft = _peft()
    layers = LayerMap.of(model)
    blocks = [name for block in layers.blocks for name in block.modules]
    targets = [
        name
        for name, module in model.named_modules()
        if _linear(module) and any(name.startswith(f"{block}.") for block in blocks)
    ]
    if not targets:
        raise RecipeError(
            f"layers.lora: the blocks of {type(model).__name__} have no linear layers to add it to; leave it out"
        )
    config = peft.LoraConfig(r=rank, lora_alpha=alpha or 2 * rank, lora_dropout=dropout, target_modules=targets)
    with warnings.catch_warnings():  # GPT-2's weights are transposed, which peft warns of and handles
        warnings.simplefilter("ignore")
        peft.inject_adapter_in_model(config, model)
    for parameter in layers.head.parameters.values():
        parameter.requires_grad_(True)


def merge_lora(model: nn.Module) -> None:
    """Merge the products into the weights and remove LoRA from the model, in place."""
    kind = _peft().tuners.lora.LoraLayer
    for name, module in list(model.named_modules()):
        if isinstance(module, kind):
            module.merge(safe_merge=True)
            holder, _, last = name.rpartition(".")
            setattr(model.get_submodule(holder), last, module.get_base_layer())
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    if hasattr(model, "peft_config"):
        del model.peft_config


def _linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _peft() -> ModuleType:
    try:
        import peft
    except ImportError:
        raise MissingExtraError("layers.lora needs peft: pip install 'warmstart[lora]'") from None
    return peft
