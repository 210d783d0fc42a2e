"""The lowest blocks of a model left out: what they would give the block above them is given instead.

blocks = LowerBlocks(model, 3)
with blocks.recorded() as states:
    model(**inputs)                       # appends what block 2 returns
with blocks.replaced(states[0]):
    model(**inputs)                       # blocks 0 to 2 compute nothing
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from warmstart.errors import ModelError
from warmstart.models.layer_map import LayerMap


class LowerBlocks:
    """The lowest blocks of a model, as many as are counted; they are recorded before they can be replaced.

    Raises:
        ModelError: They cannot be left out: they share weights, the head reads them, or they return more than states.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        groups = LayerMap.of(model).blocks
        if any(group.runs > 1 for group in groups):
            raise ModelError("its layers share a block, so that none of them can be left out")
        if getattr(getattr(model, "pooling", None), "needs_all_layers", False):
            raise ModelError("its head reads lower layers")
        modules = [group.module for group in groups if group.module is not None]
        if not 0 < count <= len(modules):
            raise ModelError(f"found {count} blocks to leave out; this model has {len(modules)}")
        self.model, self.blocks, self.top = model, modules[:count], modules[-1]
        self.rest: tuple[None, ...] | None = None
        """What follows the states in the output of a block, as is known after a pass; None where they are alone."""

    @contextmanager
    def recorded(self) -> Iterator[list[torch.Tensor]]:
        """Within it, the states that the highest of these blocks returns are appended to the list, pass by pass."""
        states: list[torch.Tensor] = []

        def record(module: nn.Module, inputs: object, output: Any) -> None:
            first, *rest = (output,) if torch.is_tensor(output) else output
            if any(other is not None for other in rest):
                raise ModelError(f"its blocks ({type(module).__name__}) give each other more than states")
            self.rest = None if torch.is_tensor(output) else tuple(rest)
            states.append(first.detach())

        handle = self.blocks[-1].register_forward_hook(record)
        try:
            yield states
        finally:
            handle.remove()

    @contextmanager
    def replaced(self, states: torch.Tensor) -> Iterator[None]:
        """Within it, the block above these reads the states that are given, and these compute nothing."""
        output = states if self.rest is None else (states, *self.rest)
        with ExitStack() as stack:
            for block in self.blocks:
                stack.enter_context(_returning(block, output))
            yield

    def last_states(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """What the top block returns for the real tokens of a batch."""
        outputs: list[Any] = []
        handle = self.top.register_forward_hook(lambda _, inputs, output: outputs.append(output))
        try:
            self.model(**inputs)
        finally:
            handle.remove()
        states, real = outputs[0] if torch.is_tensor(outputs[0]) else outputs[0][0], inputs["attention_mask"].bool()
        if states.shape[:2] != real.shape:
            raise ModelError(f"its blocks see a batch of {tuple(real.shape)} tokens as {tuple(states.shape[:2])}")
        return states[real]


@contextmanager
def _returning(block: nn.Module, output: Any) -> Iterator[None]:
    """Within it, a block returns this, whatever it is called with."""
    own = vars(block).get("forward")
    block.forward = lambda *_, **__: output
    try:
        yield
    finally:
        del block.forward
        if own is not None:
            block.forward = own
