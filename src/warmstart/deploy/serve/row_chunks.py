"""Rows of a request, split into chunks that each fit into a batch of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from warmstart.deploy.serve.backend import Outcome

if TYPE_CHECKING:
    from warmstart.deploy.serve.served_models import InputRow

CHARACTERS_PER_WEIGHT = 2048
"""Characters that weigh as much as a text, so that batches of long texts are smaller."""


class RowChunk(NamedTuple):
    """Rows of one request, and their weight in a batch."""

    weight: int
    rows: list[InputRow]


class ChunkReply(NamedTuple):
    """The outcomes of a chunk's rows; the first chunk of a batch also reports the batch, the others report 0.

    Attributes:
        batch_size: Number of rows in the batch.
        tokens_cut: Tokens of the batch outside of the window.
    """

    outcomes: list[Outcome]
    batch_size: int = 0
    tokens_cut: int = 0


def split_rows(rows: Sequence[InputRow], capacity: int) -> Iterator[RowChunk]:
    """Consecutive rows in chunks that weigh no more than a batch."""
    chunk: list[InputRow] = []
    chunk_weight = 0
    for row in rows:
        size = sum(len(str(value)) for value in row.values() if value is not None)
        weight = min(capacity, 1 + size // CHARACTERS_PER_WEIGHT)
        if chunk and chunk_weight + weight > capacity:
            yield RowChunk(chunk_weight, chunk)
            chunk, chunk_weight = [], 0
        chunk.append(row)
        chunk_weight += weight
    if chunk:
        yield RowChunk(chunk_weight, chunk)


def total_weight(chunks: Sequence[RowChunk]) -> int:
    """The weight of a batch of these chunks."""
    return sum(chunk.weight for chunk in chunks)
