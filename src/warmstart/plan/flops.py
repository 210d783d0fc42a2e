"""Floating-point operations and bytes of a training step, counted by torch while the model runs on fake tensors.

Nothing is computed and no memory is taken, so a large model can be counted on a small machine. Autograd itself knows
what is trained: a frozen lower layer costs no backward pass and keeps no activations. A model that looks at the values
of its tensors, as a few do, is run for real, on two or three rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from warmstart.models.layer_map import LayerMap
from warmstart.plan.cost_curve import BatchShape, CostCurve

Inputs = Mapping[str, torch.Tensor]
Loss = Callable[[nn.Module, Inputs], torch.Tensor]
"""Computes the loss of a model on a batch."""


def _lstm_flops(inputs: Sequence[int], below: Sequence[int], recurrent: Sequence[int], *_: object, **__: object) -> int:
    """Operations of an LSTM layer: two matrices for each token, given as shapes."""
    return 2 * inputs[0] * inputs[1] * (math.prod(below) + math.prod(recurrent))


def _lstm_backward_flops(*shapes: Sequence[int], **__: object) -> int:
    """Twice as many: the gradients of the inputs, and of the weights."""
    return 2 * _lstm_flops(*shapes)


RECURRENT = {
    torch.ops.aten.mkldnn_rnn_layer: _lstm_flops,
    torch.ops.aten.mkldnn_rnn_layer_backward: _lstm_backward_flops,
}
"""Kernels that the counter of torch does not know."""


@dataclass(frozen=True)
class ModelCost:
    """The size of a model, and what its batches cost."""

    parameters: int
    trainable_parameters: int
    blocks: int
    """The number of blocks."""
    groups: int
    """Layers of its map: embeddings, blocks, head."""
    fused_attention: bool
    """Whether it uses torch's attention, whose kernels on an accelerator keep nothing for each pair of tokens."""
    forward: CostCurve
    """Floating-point operations of a forward pass."""
    step: CostCurve
    """Floating-point operations of a forward and a backward pass."""
    activations: CostCurve
    """Bytes of activations, kept for the backward pass."""


def count_flops(build: Callable[[], nn.Module], batches: Sequence[Inputs], loss: Loss, half: bool) -> ModelCost:
    """Count the operations and bytes of a model on some batches of a few rows.

    Args:
        build: Makes the model, in training mode, with its frozen layers frozen.
        half: Whether to compute in 16 bits.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = [{name: mode.from_tensor(tensor) for name, tensor in batch.items()} for batch in batches]
            return _count(build, fake, loss, half)
    except Exception:  # it looks at values, or moves weights; a real problem is raised again below
        with torch.random.fork_rng(devices=[]):
            return _count(build, batches, loss, half)


def _count(build: Callable[[], nn.Module], batches: Sequence[Inputs], loss: Loss, half: bool) -> ModelCost:
    model = build().train()
    layers = LayerMap.of(model)
    inputs = [batch["input_ids"] for batch in batches]
    shapes = [BatchShape(ids.numel() // ids.shape[-1], ids.shape[-1]) for ids in inputs]
    costs = [_step_costs(model, batch, loss, half) for batch in batches]
    curves = (CostCurve.through(shapes, [cost[part] for cost in costs]) for part in range(3))
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    trainable = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    fused = getattr(model.config, "_attn_implementation", "eager") != "eager"
    return ModelCost(total, trainable, layers.depth, len(layers.groups), fused, *curves)


def _step_costs(model: nn.Module, inputs: Inputs, loss: Loss, half: bool) -> tuple[int, int, int]:
    """Operations of the forward pass, of both passes, and bytes of activations between them."""
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    activations: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (address := tensor.untyped_storage()._cdata) not in weights:
            activations[address] = tensor  # kept alive, so that its address is not used again
        return tensor

    with (
        FlopCounterMode(display=False, custom_mapping=RECURRENT) as counter,
        saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            value = loss(model, inputs)
        forward = counter.get_total_flops()
        value.backward()  # type: ignore[no-untyped-call]
    size = sum(tensor.untyped_storage().nbytes() for tensor in activations.values())
    for parameter in model.parameters():
        parameter.grad = None
    return forward, counter.get_total_flops(), size
