"""What the rows of a run are like, as `diagnosis.json` holds it: their labels, their lengths, and a map of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClassBalance:
    """How many rows of each part have each label, or how many entities there are of each kind."""

    labels: list[str]
    """The most frequent in the training rows first."""
    counts: dict[str, list[int]]
    """By part, a number for each label."""
    unit: str = "rows"

    def __post_init__(self) -> None:
        if any(len(counts) != len(self.labels) for counts in self.counts.values()):
            raise ValueError("expected a number for each label")


@dataclass(frozen=True)
class LengthHistogram:
    """How many rows of each part have how many tokens."""

    edges: list[int]
    """A bin is from one edge up to the next; the last has the longer rows, too."""
    counts: dict[str, list[int]]
    """By part, a number for each bin."""
    longest: int
    """Tokens of the longest row."""
    window: int
    """Tokens that the model sees."""
    sampled: bool = False
    """Whether a part has more rows than were measured."""

    def __post_init__(self) -> None:
        if any(len(counts) != len(self.edges) - 1 for counts in self.counts.values()):
            raise ValueError("expected a number for each bin")


@dataclass(frozen=True)
class EmbeddingMap:
    """The embeddings of rows in two dimensions, by principal component analysis."""

    part: str
    available: int
    """Rows there are; those of the map are a sample of them."""
    explained: list[float]
    """The share of the variance along each of the two dimensions."""
    x: list[float]
    y: list[float]
    labels: list[str]
    """The true label of each row; empty text where it has not exactly one."""
    wrong: list[bool]
    """Whether the model's answer to it is wrong."""

    def __post_init__(self) -> None:
        if len(self.explained) != 2 or len({len(self.x), len(self.y), len(self.labels), len(self.wrong)}) != 1:
            raise ValueError("expected two shares, and for each row x, y, a label and whether it is wrong")
