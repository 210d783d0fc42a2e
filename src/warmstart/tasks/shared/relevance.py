"""What was retrieved and what is relevant: the rows of a ranking, by query and document, as its metrics need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from warmstart.tasks.base import Answer, Columns

Judged: TypeAlias = dict[str, dict[str, int]]
"""By query and document, how relevant it is."""
Scored: TypeAlias = dict[str, dict[str, float]]
"""By query and document, its score."""


def judgements(columns: Columns, predictions: Sequence[Answer]) -> tuple[list[str], Judged, Scored]:
    """Each row's query, and by query and document how relevant it is and what it scored."""
    queries = _numbered("q", columns.get("query_id", columns["query"]))
    documents = _numbered("d", columns.get("document_id", columns["document"]))
    relevance: Judged = {}
    scores: Scored = {}
    for query, document, label, answer in zip(queries, documents, columns["label"], predictions, strict=True):
        judged, scored = relevance.setdefault(query, {}), scores.setdefault(query, {})
        judged[document] = max(label, judged.get(document, label))
        if "rank" not in answer:
            scored[document] = answer["score"]
        elif answer["rank"] is not None:
            scored[document] = -answer["rank"]
    if "rank" in predictions[0]:
        scores = {query: _filled(scored) for query, scored in scores.items()}
    return queries, relevance, scores


def _numbered(letter: str, names: Iterable[str]) -> list[str]:
    """A short name for each text or id: what measures rankings is written in C, and takes plain words only."""
    known: dict[str, str] = {}
    return [known.setdefault(name, f"{letter}{len(known)}") for name in names]


def _filled(scores: Mapping[str, float]) -> dict[str, float]:
    """A query's candidates by minus their rank: those that were judged, others at the ranks between, and one more."""
    taken = set(scores.values())
    ranks = range(1, int(-min(taken, default=0)) + 2)
    return {**scores, **{f"other {rank}": -float(rank) for rank in ranks if -rank not in taken}}


def first_ranks(
    relevance: Mapping[str, Mapping[str, int]], scores: Mapping[str, Mapping[str, float]]
) -> dict[str, int | None]:
    """Of each query that has a relevant document, the rank of the best such one; None where none was retrieved."""
    ranks: dict[str, int | None] = {}
    for query, labels in relevance.items():
        right = {document for document, label in labels.items() if label > 0}
        if right:
            own = scores.get(query, {})
            order = sorted(own, key=lambda document: -own[document])
            ranks[query] = next((rank for rank, document in enumerate(order, 1) if document in right), None)
    return ranks
