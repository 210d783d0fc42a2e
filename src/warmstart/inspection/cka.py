"""Linear CKA: the similarity of the hidden states of two encoders, layer by layer, whatever their basis.

Centered kernel alignment ("Similarity of Neural Network Representations Revisited", Kornblith et al. 2019, §3 and table
1): ‖YᵀX‖² / (‖XᵀX‖ · ‖YᵀY‖) with Frobenius norms, over centered states X and Y of the same tokens. It is 1 for states
that differ by a rotation and a factor only, and 0 where no direction of one is correlated with any of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


class LinearCKA:
    """Linear CKA of every layer, batch by batch: memory grows with the hidden size, not with the number of tokens."""

    def __init__(self) -> None:
        self.layers: list[_Layer] = []

    def add(self, first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> None:
        """Add the states of some tokens.

        Args:
            first: For each layer the states of one encoder, of shape (tokens, size).
            second: Those of the other, for as many layers and the same tokens; their size may differ.
        """
        if not self.layers:
            self.layers = [_Layer(x, y) for x, y in zip(first, second, strict=True)]
        for layer, x, y in zip(self.layers, first, second, strict=True):
            layer.add(x, y)

    def values(self) -> list[float]:
        """The CKA of each layer, embeddings first; NaN where the states of an encoder are all the same."""
        return [layer.value() for layer in self.layers]


class _Layer:
    """Sums and products of one layer's states, in fp64."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        # The result does not depend on the shift; one near the mean keeps the numbers small.
        self.shift = x.mean(dim=0), y.mean(dim=0)
        self.count = 0
        self.sums = [x.new_zeros(x.shape[1], dtype=torch.float64), y.new_zeros(y.shape[1], dtype=torch.float64)]
        sizes = ((x, x), (y, y), (y, x))
        self.products = [x.new_zeros(a.shape[1], b.shape[1], dtype=torch.float64) for a, b in sizes]

    def add(self, x: torch.Tensor, y: torch.Tensor) -> None:
        x, y = x - self.shift[0], y - self.shift[1]
        self.count += len(x)
        for total, states in zip(self.sums, (x, y), strict=True):
            total += states.sum(dim=0, dtype=torch.float64)
        for total, (a, b) in zip(self.products, ((x, x), (y, y), (y, x)), strict=True):
            total += a.T @ b

    def value(self) -> float:
        x, y = self.sums
        pairs = ((x, x), (y, y), (y, x))
        own_x, own_y, both = (
            float((total - torch.outer(a, b) / self.count).norm())
            for total, (a, b) in zip(self.products, pairs, strict=True)
        )
        return both**2 / (own_x * own_y) if own_x * own_y else math.nan
