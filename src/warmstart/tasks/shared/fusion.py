"""How documents are searched: by vectors, by words, or by both with their ranks fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

Fusion: TypeAlias = Literal["auto", "none", "bm25", "bm25-only"]
"""`none` by vectors, `bm25-only` by words, `bm25` by both; `auto` is `none` until one of them is chosen."""
K = 60
"""The constant of reciprocal rank fusion, as in its paper: the larger, the less the first ranks stand out."""


@runtime_checkable
class FusesSearch(Protocol):
    """Can fuse a search by vectors with one by words."""

    def search_fusion(self) -> Fusion:
        """How documents are searched."""
        ...

    def with_fusion(self, fusion: Fusion) -> Self:
        """The task with what was chosen; that one is saved."""
        ...


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]]) -> dict[int, float]:
    """The fused score of each document that is in any ranking: the sum of 1 / (60 + its rank) over the rankings.

    "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", Cormack et al. 2009.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, document in enumerate(ranking, 1):
            scores[document] = scores.get(document, 0.0) + 1 / (K + rank)
    return scores
