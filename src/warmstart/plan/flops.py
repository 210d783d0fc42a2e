"""Floating-point operations and bytes of a training step, counted by torch as the model runs on tensors without values.

Nothing is computed and no memory taken, so a large model is counted on a small machine. Autograd itself
sees what learns: a frozen lower layer costs no backward pass and keeps no activations. A model that looks at values
while it runs, as a few do, is run for real, on two or three rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from warmstart.models.layer_map import LayerMap
from warmstart.plan.cost_curve import Curve, Shape

Inputs = Mapping[str, torch.Tensor]
Loss = Callable[[Any, Inputs], Any]
"""Gives the loss of a model on a batch."""


@dataclass(frozen=True)
class Counted:
    """A model in numbers, and what its batches cost."""

    parameters: int
    learning: int
    """How many of them learn."""
    blocks: int
    """How many blocks a text passes through."""
    groups: int
    """Layers of its map: embeddings, blocks, head."""
    fused: bool
    """It leaves attention to torch, whose kernels on an accelerator keep nothing for each pair of tokens."""
    forward: Curve
    """Operations of a forward pass."""
    step: Curve
    """Operations of a forward and a backward pass."""
    kept: Curve
    """Bytes of activations that are kept for the backward pass."""


def count(build: Callable[[], Any], batches: Sequence[Inputs], loss: Loss, half: bool) -> Counted:
    """Count a model on some batches of a few rows.

    Args:
        build: Makes the model, in training mode, with what does not learn held still.
        half: The arithmetic is in 16 bits.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            return _count(build, [{k: mode.from_tensor(v) for k, v in one.items()} for one in batches], loss, half)
    except Exception:  # it looks at values, or moves weights; what is really wrong is raised once more
        with torch.random.fork_rng(devices=[]):
            return _count(build, batches, loss, half)


def _count(build: Callable[[], Any], batches: Sequence[Inputs], loss: Loss, half: bool) -> Counted:
    model = build().train()
    layers = LayerMap.of(model)
    ids = [one["input_ids"] for one in batches]
    shapes = [Shape(one.numel() // one.shape[-1], one.shape[-1]) for one in ids]
    found = [_once(model, one, loss, half) for one in batches]
    curves = (Curve.through(shapes, [one[part] for one in found]) for part in range(3))
    every = list(model.parameters())
    learning = sum(one.numel() for one in every if one.requires_grad)
    fused = getattr(model.config, "_attn_implementation", "eager") != "eager"
    return Counted(sum(one.numel() for one in every), learning, layers.depth, len(layers.groups), fused, *curves)


def _once(model: Any, inputs: Inputs, loss: Loss, half: bool) -> tuple[int, int, int]:
    """Operations of the forward pass, of both passes, and bytes kept in between."""
    weights = {one.untyped_storage()._cdata for one in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (place := tensor.untyped_storage()._cdata) not in weights:
            kept[place] = tensor  # held, so that its place is not given to another
        return tensor

    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            value = loss(model, inputs)
        forward = counter.get_total_flops()
        value.backward()
    size = sum(one.untyped_storage().nbytes() for one in kept.values())
    for parameter in model.parameters():
        parameter.grad = None
    return forward, counter.get_total_flops(), size
