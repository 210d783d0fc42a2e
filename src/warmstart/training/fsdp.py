"""Fully sharded data parallel training (FSDP2): each process has a share of weights, gradients and optimizer state.

Every block of the layer map is sharded by itself: its weights are gathered from all processes just before it is run,
forward and backward, and freed afterwards. What is outside the blocks, as embeddings and head, is gathered for the
whole step.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch
import transformers
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from warmstart.errors import RecipeError
from warmstart.models.layer_map import LayerMap
from warmstart.runtime import processes
from warmstart.runtime.allocator import return_large_blocks
from warmstart.training.settings import Settings
from warmstart.training.trainable_task import TrainableTask

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Result = TypeVar("Result")
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd")
"""Those of `trainer.optim` that are tested on sharded weights."""
_REFUSED = {
    "torch_compile": "a compiled model is not tested with sharded weights",
    "auto_find_batch_size": "a process that runs out of memory would wait for the others",
    "neftune_noise_alpha": "it is not tested with sharded weights",
}
"""Arguments of the Trainer that do not go with sharded weights, and why."""


class ShardedModel:
    """A model whose weights are sharded over the processes of this training, beside the plain model that it was.

    The two have the same modules, but not the same parameters: those of the plain model are empty until `gather` fills
    them with the weights as they are then. So nothing is left of the sharding when the training is over.
    """

    def __init__(self, plain: nn.Module, device: torch.device) -> None:
        if device.type == "cpu":
            return_large_blocks()  # blocks are gathered and freed all the time
        self.plain = plain
        self.model = _share_parameters(plain)
        self.mesh = init_device_mesh(device.type, (processes.world_size(),))
        for block in LayerMap.of(self.model).blocks:
            if block.module is not None:
                fully_shard(block.module, mesh=self.mesh)
        fully_shard(self.model, mesh=self.mesh)
        self.release()

    @torch.no_grad()
    def gather(self, here: bool = True) -> None:
        """Fill the plain model with the whole weights; every process must take part.

        Args:
            here: Whether this process is to have them.
        """
        sharded = dict(self.model.named_parameters())
        for name, parameter in self.plain.named_parameters():
            weights = sharded[name]
            whole = weights.full_tensor() if isinstance(weights, DTensor) else weights
            if here:
                parameter.data = whole.detach()

    def release(self) -> None:
        """Free the weights of the plain model."""
        for parameter in self.plain.parameters():
            parameter.data = parameter.data.new_empty(0)

    def on_plain(self, function: Callable[[], Result]) -> Callable[[], Result]:
        """A function that needs the plain model, to be called by every process: its weights are there meanwhile."""

        def gathered() -> Result:
            self.gather()
            try:
                return function()
            finally:
                self.release()

        return gathered


def _share_parameters(model: nn.Module) -> nn.Module:
    """A copy of a model's modules that has the same parameters and buffers."""
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared)


def mesh_of(model: nn.Module) -> DeviceMesh | None:
    """The processes that a model's weights are sharded over; None for a model that is not sharded."""
    return next((weights.device_mesh for weights in model.parameters() if isinstance(weights, DTensor)), None)


def check_fsdp(model: nn.Module, task: TrainableTask, settings: Settings) -> None:
    """Refuse settings, tasks and models that do not go with sharded weights."""
    if not isinstance(model, transformers.PreTrainedModel):
        raise RecipeError(f"training.fsdp: found true, but models of {task.name} are not sharded yet; leave it out")
    for name in (name for name, value in vars(task).items() if isinstance(value, nn.Module)):
        raise RecipeError(
            f"task.{name}: the loss reads its weights outside of the model, where they are not sharded; leave it out, "
            "or training.fsdp"
        )
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        raise RecipeError(
            "training.fsdp: found true, but recurrent layers are not sharded; leave it out, or choose another "
            "head.type or model"
        )
    optimizer = settings.trainer.get("optim", OPTIMIZERS[0])
    if optimizer not in OPTIMIZERS:
        raise RecipeError(
            f"trainer.optim: found {optimizer}, which is not tested on sharded weights; set one of "
            f"{', '.join(OPTIMIZERS)}, or leave training.fsdp out"
        )
    for name, reason in _REFUSED.items():
        if settings.trainer.get(name):
            raise RecipeError(f"trainer.{name}: {reason}; leave it out, or training.fsdp")
