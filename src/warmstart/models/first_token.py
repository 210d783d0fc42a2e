"""The last block computed for the first token alone, where that is all that the head reads.

The stock sequence heads of BERT and its relatives read the first token of the last block; what the block computes for
the others is never read. In training that is most of a block's work, and nothing is changed but rounding: keys and
values are those of all tokens, everything after them is of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from warmstart.models.architectures import is_pooled, spec_of
from warmstart.models.layer_map import LayerMap

STOCK_HEAD = "ForSequenceClassification"


@contextmanager
def first_token_only(model: nn.Module) -> Iterator[bool]:
    """Within it, training steps compute the last block for the first token only; gives whether they do.

    The model's outputs, loss and gradients are the same. Where another token may be read, nothing is changed: in
    evaluation, under another head, or when hidden states are asked for.
    """
    block = _last_block(model)
    if block is None:
        yield False
        return
    hooks, attention = _FirstTokenHooks(), block.attention.self
    with ExitStack() as stack:
        for handle in (
            model.register_forward_pre_hook(hooks.refuse_hidden_states, with_kwargs=True),
            attention.query.register_forward_pre_hook(hooks.take_first),
            attention.query.register_forward_hook(hooks.repeat),
            attention.register_forward_hook(hooks.first_output),
            block.attention.output.register_forward_pre_hook(hooks.take_first),
        ):
            stack.callback(handle.remove)
        yield True


def _last_block(model: nn.Module) -> Any:
    """The last block, if it is built like BERT's, under a stock head."""
    config = getattr(model, "config", None)
    is_stock = type(model).__name__.endswith(STOCK_HEAD) and not is_pooled(config)
    if not is_stock or not spec_of(config).first_token_block:
        return None
    if getattr(config, "output_hidden_states", False) or getattr(config, "is_decoder", False):
        return None
    return LayerMap.of(model).blocks[-1].module


class _FirstTokenHooks:
    """What is done around the attention of the last block; nothing in evaluation."""

    tokens = 0
    """How many tokens the rows of the batch have."""

    def refuse_hidden_states(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if module.training and (kwargs.get("output_hidden_states") or kwargs.get("output_attentions")):
            raise RuntimeError("the last block is computed for the first token only: it has no hidden states to give")

    def take_first(self, module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
        self.tokens = args[-1].shape[1]
        return tuple(states[:, :1] for states in args) if module.training else None

    def repeat(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor | None:
        """The first token's query in the place of each, as a view: attention expects as many queries as keys."""
        return output.expand(-1, self.tokens, -1) if module.training else None

    def first_output(
        self, module: nn.Module, args: Any, output: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...] | None:
        return (output[0][:, :1], *output[1:]) if module.training else None
