"""Dropout from cheap random bits, for training on a processor.

PyTorch draws one random number for every element, which takes several times as long as everything else about a dropout,
and most of the time of attention over long texts. Here 16 random bits decide about an element, so that 0.1 is
6554/65536; the bits come from SFC64 of NumPy, seeded from PyTorch's own generator at every call: a training that is
resumed draws what it would have drawn. Attention with dropout is computed in pieces that fit into the processor's
caches. Neither needs to know the architecture: within `FastDropout()`, the calls of PyTorch's functions are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

PIECE_BYTES = 1 << 22
"""Attention weights that are computed at a time."""
_LEVELS = 1 << 16


class FastDropout:
    """Within it, dropout on a processor, in modules, functions and attention, draws its random bits fast.

    The functions are replaced where modules look them up. A `TorchFunctionMode` would not do: PyTorch suspends it in
    the backward pass, where gradient checkpointing runs the model once more.
    """

    def __enter__(self) -> None:
        self._replaced = {name: getattr(F, name) for name in _FAST}
        for name, fast in _FAST.items():
            setattr(F, name, partial(_replace, fast, self._replaced[name]))

    def __exit__(self, *error: object) -> None:
        for name, function in self._replaced.items():
            setattr(F, name, function)


def _replace(fast: Callable[..., Tensor | None], plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    output = fast(*args, **kwargs)
    return plain(*args, **kwargs) if output is None else output


def keep_mask(shape: torch.Size, p: float) -> Tensor:
    """True with probability 1 − p, for every element."""
    seed = int(torch.randint(2**63 - 1, (1,)))
    count = shape.numel()
    words = np.random.Generator(np.random.SFC64(seed)).integers(
        -(2**63), 2**63 - 1, (count + 3) // 4, np.int64, endpoint=True
    )
    bits = torch.from_numpy(words.view(np.int16)[:count])
    return (bits >= round(p * _LEVELS) - _LEVELS // 2).view(shape)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor | None:
    """`torch.nn.functional.dropout`; None where that one is to be used."""
    if not training or not 0 < p < 1 or inplace or not _is_ours(input):
        return None
    output: Tensor = _Dropout.apply(input, p)  # type: ignore[no-untyped-call]
    return output


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:
    """`torch.nn.functional.scaled_dot_product_attention`; None where that one is to be used."""
    plain = query.dim() == 4 and key.shape[1] == query.shape[1] and not is_causal and not enable_gqa
    # The gradient of a mask is needed where it is a learned bias between positions.
    learned = attn_mask is not None and attn_mask.requires_grad
    if not 0 < dropout_p < 1 or not plain or learned or not _is_ours(query):
        return None
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
    queries = query.shape[2]
    if query.stride(2) == 0:  # one query in the place of all: see `models/first_token.py`
        query, attn_mask = query[:, :, :1], attn_mask if attn_mask is None else attn_mask[..., :1, :]
    scale = scale or query.shape[-1] ** -0.5
    output: Tensor = _Attention.apply(query, key, value, attn_mask, scale, dropout_p)  # type: ignore[no-untyped-call]
    return output.expand(-1, -1, queries, -1)


def _is_ours(input: Tensor) -> bool:
    return input.device.type == "cpu" and input.is_floating_point()


_FAST: dict[str, Callable[..., Tensor | None]] = {
    "dropout": _dropout,
    "scaled_dot_product_attention": _attention,
}
"""What stands in for functions of `torch.nn.functional`."""


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, p: float) -> Tensor:
        keep = keep_mask(input.shape, p)
        ctx.save_for_backward(keep)
        ctx.factor = 1 / (1 - p)
        return (input * keep).mul_(ctx.factor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (gradients[0] * keep).mul_(ctx.factor), None


class _Attention(torch.autograd.Function):
    """Softmax of the scores, dropout, and the weighted mean of the values, for a few heads at a time."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, p: float
    ) -> Tensor:
        rows, heads, queries, _ = query.shape
        flat = [tensor.reshape(rows * heads, *tensor.shape[2:]) for tensor in (query * scale, key, value)]
        weights = query.new_empty(rows * heads, queries, key.shape[2])
        keep = torch.empty(weights.shape, dtype=torch.bool)
        output = torch.empty(rows * heads, queries, value.shape[3], dtype=value.dtype)
        if mask is not None:
            mask = mask.expand(rows, mask.shape[1] if mask.dim() == 4 else 1, *mask.shape[-2:])
        for part in _pieces(weights, heads):
            scores = torch.bmm(flat[0][part], flat[1][part].transpose(1, 2))
            if mask is not None:
                scores.view(-1, heads, *scores.shape[1:]).add_(mask[part.start // heads : part.stop // heads])
            torch.softmax(scores, -1, out=weights[part])
            keep[part] = keep_mask(scores.shape, p)
            torch.mul(weights[part], keep[part], out=scores)
            torch.bmm(scores, flat[2][part], out=output[part])
        ctx.save_for_backward(*flat, weights, keep)
        ctx.shapes, ctx.scale, ctx.factor, ctx.heads = (query.shape, key.shape, value.shape), scale, 1 / (1 - p), heads
        return output.mul_(ctx.factor).view(rows, heads, queries, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, keep = ctx.saved_tensors
        incoming = (gradients[0] * ctx.factor).reshape(weights.shape[0], weights.shape[1], -1)
        outgoing = [torch.empty_like(tensor) for tensor in (query, key, value)]
        for part in _pieces(weights, ctx.heads):
            kept = weights[part] * keep[part]
            torch.bmm(kept.transpose(1, 2), incoming[part], out=outgoing[2][part])
            torch.bmm(incoming[part], value[part].transpose(1, 2), out=kept).mul_(keep[part])
            scores = torch._softmax_backward_data(kept, weights[part], -1, weights.dtype)
            torch.bmm(scores, key[part], out=outgoing[0][part])
            torch.bmm(scores.transpose(1, 2), query[part], out=outgoing[1][part])
        outgoing[0].mul_(ctx.scale)
        return (*(tensor.view(shape) for tensor, shape in zip(outgoing, ctx.shapes, strict=True)), None, None, None)


def _pieces(weights: Tensor, heads: int) -> list[slice]:
    """All heads of a few rows each."""
    of_a_row = heads * weights.shape[1] * weights.shape[2] * weights.element_size()
    size = max(PIECE_BYTES // max(of_a_row, 1), 1) * heads
    return [slice(start, min(start + size, len(weights))) for start in range(0, len(weights), size)]
