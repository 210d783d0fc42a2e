"""What to remove from a model, and what was removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.shrinking.gate import Gate
from warmstart.shrinking.train_back import LearnsFrom


@dataclass(frozen=True)
class ShrinkOptions:
    """What to remove.

    Args:
        min_ratio: The share of the original's score on dev rows that must surely be reached.
        remove: How many blocks to remove; None to try half, a third and a sixth of them.
        vocabulary: Whether to remove tokens that no text uses.
        int8: A folder for the smaller model quantized to int8, as an ONNX export, if it passes the same gate.
        train_back: What a model from which blocks or heads were removed learns: the `labels` of the training rows, or
            also what the unshrunk model answers to their texts (`distil`).
        remove_heads: How many attention heads to remove from each block.
        embedding_size: To factorize the embeddings into ones of this size and a projection; None to leave them.
    """

    min_ratio: float = 0.99
    remove: int | None = None
    vocabulary: bool = True
    int8: Path | None = None
    train_back: LearnsFrom = "labels"
    remove_heads: int = 0
    embedding_size: int | None = None


@dataclass(frozen=True)
class Attempt:
    """A smaller model, and how it compares with the original."""

    removed_blocks: list[int]
    removed_heads: str
    """As `predict --without` takes them."""
    embedding_size: int | None
    """What the embeddings were factorized to; None where they were left."""
    removed: str
    """Blocks, heads and what else, in words."""
    tokens: int
    parameters: int
    gate: Gate
    passed: bool


@dataclass(frozen=True)
class Shrunk:
    """The smaller model of a run.

    Attributes:
        blocks: How many there are, before and now; likewise `heads` in each block, `tokens` and `parameters`.
        attempts: All that were tried, in order; the last one was kept.
        notes: What could not be removed, and why.
        int8: How the smaller model quantized to int8 compares with the original; None if it was not asked for.
    """

    folder: str
    blocks: tuple[int, int]
    heads: tuple[int, int]
    tokens: tuple[int, int]
    parameters: tuple[int, int]
    attempts: list[Attempt]
    notes: list[str]
    int8: Gate | None = None
