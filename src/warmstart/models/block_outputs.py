"""The outputs of a model's blocks over a series of batches, stored so that the lowest blocks are computed only once.

outputs = BlockOutputs(model)
with outputs.recorded():
    ...                                      # all batches
with outputs.reused(below=3):
    ...                                      # the same batches, for which blocks 0 to 2 compute nothing
with outputs.recorded(below=3):
    ...                                      # both: what the blocks above return now is stored in place of before
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from warmstart.models.layer_map import LayerMap

MOST_BYTES = 1 << 29
"""Outputs beyond that are not stored; everything is then computed each time."""


class BlockOutputs:
    """What each block of a model returned, call by call.

    Attributes:
        tried: Whether a series of batches was recorded.
        usable: Whether its outputs are stored.
    """

    def __init__(self, model: nn.Module) -> None:
        groups = LayerMap.of(model).blocks
        # A block that runs several times has outputs of several layers.
        shared = any(group.runs > 1 for group in groups)
        self.blocks = [] if shared else [group.module for group in groups if group.module is not None]
        self.calls: list[list[Any]] = []
        self.bytes = 0
        self.tried = self.usable = False

    @contextmanager
    def recorded(self, below: int = 0) -> Iterator[None]:
        """Within it, the outputs of all blocks are stored, in place of those that were.

        Args:
            below: The blocks below this number return what they returned before, as in `reused`.
        """
        kept = self.calls[:below] if self.usable else []
        new: list[list[Any]] = [[] for _ in self.blocks[len(kept) :]]
        with ExitStack() as stack:
            stack.enter_context(self.reused(len(kept)))
            for block, calls in zip(self.blocks[len(kept) :], new, strict=True):
                stack.callback(block.register_forward_hook(self._store(calls, new)).remove)
            self.bytes = sum(tensor.nbytes for tensor in _tensors(kept))
            self.calls, self.tried, self.usable = [], True, False
            yield
            if self.blocks and self.bytes <= MOST_BYTES:
                self.calls, self.usable = [*kept, *new], True

    def _store(self, calls: list[Any], new: list[list[Any]]) -> Any:
        def store(module: nn.Module, inputs: object, output: Any) -> None:
            self.bytes += sum(tensor.nbytes for tensor in _tensors(output))
            if self.bytes > MOST_BYTES:
                for others in new:
                    others.clear()
            else:
                calls.append(_copy(output))  # what comes next may write into it

        return store

    @contextmanager
    def reused(self, below: int) -> Iterator[None]:
        """Within it, the blocks below this number return what they returned before, in the same order."""
        replaced = self.blocks[:below] if self.usable else []
        own = [vars(block).get("forward") for block in replaced]
        for block, calls in zip(replaced, self.calls, strict=False):
            block.forward = _Replay(calls)
        try:
            yield
        finally:
            for block, forward in zip(replaced, own, strict=True):
                del block.forward
                if forward is not None:
                    block.forward = forward


class _Replay:
    """Returns stored outputs one after the other, whatever it is called with."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = iter(calls)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return _copy(next(self.calls))


def _tensors(output: Any) -> Iterator[torch.Tensor]:
    if torch.is_tensor(output):
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _tensors(part)


def _copy(output: Any) -> Any:
    if torch.is_tensor(output):
        return output.clone()
    if isinstance(output, tuple | list):
        return type(output)(map(_copy, output))
    return output
