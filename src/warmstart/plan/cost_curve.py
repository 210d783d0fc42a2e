"""What a batch costs, told by its shape: a part a batch, a part a token, and a part a pair of tokens that meet.

Every linear layer costs alike for each token, and attention for each pair of tokens of a row (Vaswani et al. 2017,
table 1). So a few batches tell the cost of all: floating-point operations, bytes of activations and seconds alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from warmstart.training.batches import shapes_of


class Shape(NamedTuple):
    """A padded batch: so many lists of tokens, all so long."""

    lists: int
    length: int

    @property
    def tokens(self) -> int:
        """Tokens of the batch, padding counted."""
        return self.lists * self.length


@dataclass(frozen=True)
class Curve:
    """A cost that grows with a batch's tokens, and with the pairs of tokens that meet in attention."""

    batch: float
    token: float
    pair: float

    @classmethod
    def through(cls, shapes: Sequence[Shape], costs: Sequence[float]) -> Curve:
        """The curve nearest to some costs in which no part is less than nothing."""
        parts = _parts(shapes)
        # Each column in its own units, as pairs are thousands of times as many as tokens.
        units = parts.max(axis=0)
        found, _ = nnls(parts / units, np.asarray(costs, dtype=float))
        return cls(*(found / units).tolist())

    def __call__(self, shape: Shape) -> float:
        return self.total([shape])

    def total(self, shapes: Sequence[Shape]) -> float:
        """What batches of these shapes cost together."""
        return float((_parts(shapes) @ [self.batch, self.token, self.pair]).sum())


def _parts(shapes: Sequence[Shape]) -> npt.NDArray[np.float64]:
    array = np.asarray(shapes, dtype=float).reshape(-1, 2)
    tokens = array[:, 0] * array[:, 1]
    return np.stack([np.ones(len(array)), tokens, tokens * array[:, 1]], axis=1)


def batch_shapes(rows: object, batches: Iterable[Sequence[int]]) -> list[Shape]:
    """The shape that each batch of rows is padded to."""
    lists, longest = shapes_of(rows)
    return [Shape(int(lists[one].sum()), int(longest[one].max())) for one in map(list, batches)]


def evenly(count: int, wanted: int) -> list[int]:
    """So many places of `count`, the first and the last among them, in even steps; all where there are no more."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(wanted, count))})
