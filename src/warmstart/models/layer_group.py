"""One layer of a layer map: the embeddings, a block, or the head, with its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn


@dataclass(frozen=True, eq=False)
class LayerGroup:
    """One layer of the map: the embeddings, a block, or the head."""

    name: str
    type: str
    """Class names of its modules."""
    parameters: dict[str, nn.Parameter] = field(repr=False)
    """By their full dotted name in the model; a tied parameter is here under one of its names only."""
    modules: tuple[str, ...]
    """Dotted names of the modules it consists of."""
    module: nn.Module | None = field(default=None, repr=False)
    """The block itself; embeddings and head are no single module."""
    runs: int = 1
    """How often one forward pass runs it: more than once where blocks are shared, as in ALBERT."""

    @property
    def num_parameters(self) -> int:
        """How many numbers its parameters hold."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    @property
    def num_trainable(self) -> int:
        """How many of them are trained at present."""
        return sum(p.numel() for p in self.parameters.values() if p.requires_grad)
