"""Search: documents are indexed once, and each query is compared with all of them.

index = Index.of(predictor, documents)
index.search(["how are glacier caves formed?"], top=5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from warmstart.inference.predictor import Predictor
from warmstart.inference.searchers import DEPTH, Searcher, make_searcher
from warmstart.tasks.base import Answer, AnyTask, Columns
from warmstart.tasks.shared.protocols import SearchesDocuments


class SearchHit(TypedDict):
    """A document that was retrieved."""

    id: str | int
    document: str
    score: float


class Index:
    """Documents that can be searched, in memory.

    Args:
        searcher: What ranks them.
        documents: The texts, in the order that decides between equal scores.
        ids: Ids of the documents; None for their index, from 0.
    """

    def __init__(self, searcher: Searcher, documents: Sequence[str], ids: Sequence[str] | None = None) -> None:
        self.searcher = searcher
        self.documents = documents
        self.ids = ids

    @classmethod
    def of(cls, predictor: Predictor, documents: Sequence[str], ids: Sequence[str] | None = None) -> Index:
        """Index documents as the model searches them: by their vectors, by their words (BM25), or by both."""
        return cls(make_searcher(predictor, documents), documents, ids)

    def search(self, queries: Sequence[str], top: int = 20) -> list[list[SearchHit]]:
        """The best documents for each query, best first, each with its `id`, `document` and `score`."""
        return [
            [
                {"id": self.ids[at] if self.ids else at, "document": self.documents[at], "score": ranking.score(at)}
                for at in ranking.best
            ]
            for ranking in self.searcher.rank(queries, top)
        ]


def searches_documents(task: AnyTask, collection: bool) -> bool:
    """Whether rows of a task are evaluated by a search among all documents, not each by itself.

    Args:
        collection: Whether there are documents besides those of the rows.
    """
    return isinstance(task, SearchesDocuments) and task.searches_documents(collection)


@dataclass(frozen=True)
class SearchedRows:
    """Queries with documents to be ranked for them, and the rows that ask where one document is for one query."""

    queries: dict[str, str]
    """Texts by id, or by themselves where they have none, as are the documents."""
    documents: dict[str, str]
    rows: list[tuple[str, str]]
    """Query and document of each row."""

    @classmethod
    def of(cls, rows: Columns, collection: Columns | None = None) -> SearchedRows:
        """All documents of the rows can be found, or those of the collection.

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
        return cls(queries, documents, list(zip(query_ids, document_ids, strict=True)))

    def answers(self, searcher: Searcher) -> list[Answer]:
        """Each row's score, and the rank of its document; None for a rank below `DEPTH`, or if it is not retrieved.

        Args:
            searcher: What ranks the documents, in their order.
        """
        index_of = {key: index for index, key in enumerate(self.documents)}
        wanted: dict[str, list[int]] = {}
        for row, (query, _) in enumerate(self.rows):
            wanted.setdefault(query, []).append(row)
        answers: list[Answer] = [{} for _ in self.rows]
        rankings = searcher.rank(list(self.queries.values()), DEPTH)
        for query, ranking in zip(self.queries, rankings, strict=True):
            ranks = {index: rank for rank, index in enumerate(ranking.best, 1)}
            for row in wanted[query]:
                index = index_of[self.rows[row][1]]
                answers[row] = {"score": ranking.score(index), "rank": ranks.get(index)}
        return answers


def rank_rows(predictor: Predictor, rows: Columns, collection: Columns | None = None) -> list[Answer]:
    """Each row's score, and the rank of its document among all that could have been found; see `SearchedRows`."""
    searched = SearchedRows.of(rows, collection)
    return searched.answers(make_searcher(predictor, list(searched.documents.values()), pairs=True))
