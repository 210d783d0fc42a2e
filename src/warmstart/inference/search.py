"""Semantic search with a bi-encoder: documents are embedded once, and each query is compared with all of them.

index = Index.of(predictor, documents)
index.search(["how are glacier caves formed?"], top=5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict

import numpy as np

from warmstart.errors import RecipeError
from warmstart.inference.batching import ROWS
from warmstart.inference.predictor import Predictor
from warmstart.tasks.base import Answer, AnyTask, Columns
from warmstart.tasks.shared.nearest_neighbours import Neighbours, Vectors
from warmstart.tasks.shared.protocols import SearchesDocuments

CHUNK = 1024
"""Texts whose tokens are held at a time."""
DEPTH = 1000
"""How far down a ranking is measured, as is usual for average precision."""


class SearchHit(TypedDict):
    """A document that was retrieved."""

    id: str | int
    document: str
    score: float


class Index:
    """Documents that can be searched, with their vectors in memory.

    Args:
        documents: The texts, in the order that decides between equal scores.
        vectors: One for each.
        ids: Ids of the documents; None for their index, from 0.
    """

    def __init__(
        self, predictor: Predictor, documents: Sequence[str], vectors: Vectors, ids: Sequence[str] | None = None
    ) -> None:
        self.predictor = predictor
        self.documents = documents
        self.ids = ids
        self.neighbours = neighbours_of(predictor, vectors)

    @classmethod
    def of(cls, predictor: Predictor, documents: Sequence[str], ids: Sequence[str] | None = None) -> Index:
        """Compute the documents' vectors."""
        return cls(predictor, documents, vectors_of(predictor, documents, "document"), ids)

    def search(self, queries: Sequence[str], top: int = 20) -> list[list[SearchHit]]:
        """The closest documents to each query, best first, each with its `id`, `document` and `score`."""
        if not queries:
            return []
        scores, indices = self.neighbours.closest(vectors_of(self.predictor, queries, "query"), top)
        return [
            [
                {"id": self.ids[at] if self.ids else at, "document": self.documents[at], "score": score}
                for score, at in zip(*row, strict=True)
            ]
            for row in zip(scores.tolist(), indices.tolist(), strict=True)
        ]


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


def neighbours_of(predictor: Predictor, vectors: Vectors) -> Neighbours:
    """Vectors that can be searched as the model compares them."""
    task = predictor.task
    return Neighbours(vectors, task.distance_metric if isinstance(task, SearchesDocuments) else "cosine")


def searches_documents(task: AnyTask, collection: bool) -> bool:
    """Whether rows of a task are evaluated by a search among all documents, not each by itself.

    Args:
        collection: Whether there are documents besides those of the rows.
    """
    return isinstance(task, SearchesDocuments) and task.searches_documents(collection)


def rank_rows(predictor: Predictor, rows: Columns, collection: Columns | None = None) -> Iterator[Answer]:
    """Each row's score, and the rank of its document among all that could have been found for its query.

    A rank below `DEPTH` is None. All documents of the rows can be found, or those of the collection.

    Args:
        rows: Columns of queries and documents, with their ids where they have any.
        collection: Columns `id` and `text`.
    """
    query_ids = list(rows.get("query_id", rows["query"]))
    document_ids = list(rows.get("document_id", rows["document"]))
    queries = dict(zip(query_ids, rows["query"], strict=True))
    documents = dict(zip(document_ids, rows["document"], strict=True))
    documents |= {text: text for text in rows.get("negative", ())}
    if collection is not None:
        documents = dict(zip(collection["id"], collection["text"], strict=True))
    index_of = {key: index for index, key in enumerate(documents)}
    wanted: dict[str, list[int]] = {}
    for row, key in enumerate(query_ids):
        wanted.setdefault(key, []).append(row)
    answers: list[Answer] = [{} for _ in query_ids]
    for key, best, score in _rankings(predictor, queries, list(documents.values())):
        ranks = {index: rank for rank, index in enumerate(best, 1)}
        for row in wanted[key]:
            index = index_of[document_ids[row]]
            answers[row] = {"score": score(index), "rank": ranks.get(index)}
    yield from answers


def _rankings(
    predictor: Predictor, queries: Mapping[str, str], documents: Sequence[str]
) -> Iterator[tuple[str, list[int], Callable[[int], float]]]:
    """Of each query the indices of the best documents, best first, and the score of any."""
    if not predictor.engine.gives_vectors:
        # A cross-encoder has to read every pair.
        for key, query in queries.items():
            pairs = ({"query": query, "document": document} for document in documents)
            scores = np.array([answer["score"] for answer in predictor.stream(pairs)])
            yield key, np.argsort(-scores, kind="stable")[:DEPTH].tolist(), scores.item
        return
    vectors = vectors_of(predictor, documents, "document")
    neighbours = neighbours_of(predictor, vectors)
    keys = list(queries)
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        query_vectors = vectors_of(predictor, [queries[key] for key in chunk], "query")
        _, indices = neighbours.closest(query_vectors, DEPTH)
        for key, query_vector, best in zip(chunk, query_vectors, indices.tolist(), strict=True):
            yield key, best, neighbours.scores(query_vector).item
