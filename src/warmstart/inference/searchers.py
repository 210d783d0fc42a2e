"""Ways to rank documents for queries: by vectors, by words, by both, or by a cross-encoder that reads every pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from warmstart.errors import RecipeError
from warmstart.inference.batching import ROWS
from warmstart.inference.predictor import Predictor
from warmstart.tasks.shared.bm25 import Bm25
from warmstart.tasks.shared.fusion import FusesSearch, reciprocal_rank_fusion
from warmstart.tasks.shared.nearest_neighbours import Neighbours, Vectors
from warmstart.tasks.shared.protocols import SearchesDocuments

CHUNK = 1024
"""Texts whose tokens are held at a time."""
DEPTH = 1000
"""How far down a ranking is measured, as is usual for average precision, and how far down rankings are fused."""


class Ranking(NamedTuple):
    """The documents for one query."""

    best: list[int]
    """Indices of the documents, best first; of equal ones the earlier first."""
    score: Callable[[int], float]
    """The score of any document, by its index."""


class Searcher(Protocol):
    """Ranks documents that it holds."""

    def rank(self, queries: Sequence[str], top: int) -> Iterator[Ranking]:
        """The `top` best documents for each query."""
        ...


class VectorSearcher:
    """Documents by their vectors, which are in memory; a query is compared with every one."""

    def __init__(self, predictor: Predictor, documents: Sequence[str]) -> None:
        self.predictor = predictor
        vectors = vectors_of(predictor, documents, "document")
        task = predictor.task
        metric = task.distance_metric if isinstance(task, SearchesDocuments) else "cosine"
        self.neighbours = Neighbours(vectors, metric)

    def rank(self, queries: Sequence[str], top: int) -> Iterator[Ranking]:
        """The `top` closest documents to each query."""
        for start in range(0, len(queries), CHUNK):
            vectors = vectors_of(self.predictor, queries[start : start + CHUNK], "query")
            scores, indices = self.neighbours.closest(vectors, top)
            for vector, best, values in zip(vectors, indices.tolist(), scores.tolist(), strict=True):
                yield Ranking(best, self._score(vector, dict(zip(best, values, strict=True))))

    def _score(self, query: Vectors, known: dict[int, float]) -> Callable[[int], float]:
        return lambda at: known[at] if at in known else float(self.neighbours.scores(query, slice(at, at + 1))[0])


class WordSearcher:
    """Documents by BM25; those that share no word with a query are not retrieved."""

    def __init__(self, documents: Sequence[str]) -> None:
        self.index = Bm25(documents)

    def rank(self, queries: Sequence[str], top: int) -> Iterator[Ranking]:
        """The `top` best documents for each query."""
        for query in queries:
            best, scores = self.index.closest(query, top)
            yield Ranking(best, scores.item)


class FusedSearcher:
    """Documents by the ranks that other searchers give them: reciprocal rank fusion."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self.searchers = searchers

    def rank(self, queries: Sequence[str], top: int) -> Iterator[Ranking]:
        """The `top` best documents for each query, by their ranks among the first of each searcher."""
        depth = max(top, DEPTH)
        for rankings in zip(*(searcher.rank(queries, depth) for searcher in self.searchers), strict=True):
            fused = reciprocal_rank_fusion([ranking.best for ranking in rankings])
            best = sorted(fused, key=lambda at, fused=fused: (-fused[at], at))[:top]  # type: ignore[misc]
            yield Ranking(best, lambda at, fused=fused: fused.get(at, 0.0))  # type: ignore[misc]


class PairSearcher:
    """Documents by a model that has to read each of them together with the query, as a cross-encoder does."""

    def __init__(self, predictor: Predictor, documents: Sequence[str]) -> None:
        self.predictor = predictor
        self.documents = documents

    def rank(self, queries: Sequence[str], top: int) -> Iterator[Ranking]:
        """The `top` best documents for each query."""
        for query in queries:
            pairs = ({"query": query, "document": document} for document in self.documents)
            scores = np.array([next(iter(answer.values())) for answer in self.predictor.stream(pairs)])
            yield Ranking(np.argsort(-scores, kind="stable")[:top].tolist(), scores.item)


def make_searcher(predictor: Predictor, documents: Sequence[str], pairs: bool = False) -> Searcher:
    """The way that a model's task searches documents.

    Args:
        pairs: Whether a model without vectors may read every pair; it is an error otherwise.
    """
    task = predictor.task
    fusion = task.search_fusion() if isinstance(task, FusesSearch) else "none"
    if fusion == "bm25-only":
        return WordSearcher(documents)
    if pairs and not predictor.engine.gives_vectors:
        return PairSearcher(predictor, documents)
    vectors = VectorSearcher(predictor, documents)
    return FusedSearcher([vectors, WordSearcher(documents)]) if fusion == "bm25" else vectors


def vectors_of(predictor: Predictor, texts: Sequence[str], side: str, batch: int = ROWS) -> Vectors:
    """The vector of each text, of length 1 where they are compared by cosine.

    Args:
        side: `query` or `document`, which may have prompts of their own.
    """
    task = predictor.task
    if not (isinstance(task, SearchesDocuments) and predictor.engine.gives_vectors):
        raise RecipeError("search: this model gives no vectors; expected one of `task: {name: rank, encoder: bi}`")
    chunks = []
    for start in range(0, len(texts), CHUNK):
        features = task.encode_texts(texts[start : start + CHUNK], side, predictor.tokenizer, predictor.window)
        chunks.append(predictor.compute(features, "documents", batch))
    return np.concatenate(chunks)
