"""What a batch costs, from its shape: so much per batch, so much per token, and so much per pair of tokens.

Every linear layer costs the same for each token, and attention for each pair of tokens of a row (Vaswani et al. 2017,
table 1). So the cost of all batches follows from a few: floating-point operations, bytes of activations and seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from warmstart.training.batches import row_shapes
from warmstart.training.streams import Piece, StreamRows


class BatchShape(NamedTuple):
    """A padded batch: how many lists of tokens, and their length."""

    lists: int
    length: int

    @property
    def tokens(self) -> int:
        """Tokens of the batch, padding included."""
        return self.lists * self.length


@dataclass(frozen=True)
class CostCurve:
    """A cost that grows with the tokens of a batch, and with the pairs of tokens in attention."""

    batch: float
    token: float
    pair: float

    @classmethod
    def through(cls, shapes: Sequence[BatchShape], costs: Sequence[float]) -> CostCurve:
        """The least-squares curve through some costs, none of its parts negative."""
        parts = _parts(shapes)
        # Each column in its own units: there are thousands of times as many pairs as tokens.
        units = parts.max(axis=0)
        weights, _ = nnls(parts / units, np.asarray(costs, dtype=float))
        return cls(*(weights / units).tolist())

    def __call__(self, shape: BatchShape) -> float:
        return self.total([shape])

    def total(self, shapes: Sequence[BatchShape]) -> float:
        """The cost of batches of these shapes together."""
        return float((_parts(shapes) @ [self.batch, self.token, self.pair]).sum())


def _parts(shapes: Sequence[BatchShape]) -> npt.NDArray[np.float64]:
    array = np.asarray(shapes, dtype=float).reshape(-1, 2)
    tokens = array[:, 0] * array[:, 1]
    return np.stack([np.ones(len(array)), tokens, tokens * array[:, 1]], axis=1)


def batch_shapes(
    rows: object, batches: Iterable[Sequence[int]], slices_per_text: int | None = None
) -> list[BatchShape]:
    """The shape that each batch of rows, or of pieces of streams, is padded to."""
    if isinstance(rows, StreamRows):
        pieces: Iterable[Sequence[Piece]] = batches  # type: ignore[assignment]
        return [BatchShape(len(step), max(piece.length for piece in step)) for step in pieces]
    lists, longest = row_shapes(rows)
    if slices_per_text is not None:
        lists = np.minimum(lists, slices_per_text)
    return [BatchShape(int(lists[batch].sum()), int(longest[batch].max())) for batch in map(list, batches)]


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """Evenly spaced indices below `count`, the first and the last among them; all where no more are wanted."""
    return sorted({round(index) for index in np.linspace(0, count - 1, min(wanted, count))})
