"""What was found beside what is relevant: the rows of a ranking, by query and document, as its measures want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def judged(
    columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
) -> tuple[list[str], dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Each row's query, and by query and document how relevant it is and what it scored."""
    queries = _numbered("q", columns.get("query_id", columns["query"]))
    documents = _numbered("d", columns.get("document_id", columns["document"]))
    relevance: dict[str, dict[str, int]] = {}
    scores: dict[str, dict[str, float]] = {}
    for query, document, label, given in zip(queries, documents, columns["label"], predictions, strict=True):
        judged, found = relevance.setdefault(query, {}), scores.setdefault(query, {})
        judged[document] = max(label, judged.get(document, label))
        if "rank" not in given:
            found[document] = given["score"]
        elif given["rank"] is not None:
            found[document] = -given["rank"]
    if "rank" in predictions[0]:
        scores = {query: _filled(found) for query, found in scores.items()}
    return queries, relevance, scores


def _numbered(letter: str, names: Iterable[str]) -> list[str]:
    """A short name for each text or id: what measures rankings is written in C, and takes plain words only."""
    known: dict[str, str] = {}
    return [known.setdefault(name, f"{letter}{len(known)}") for name in names]


def _filled(scores: Mapping[str, float]) -> dict[str, float]:
    """A query's candidates by minus their rank: those that were judged, others in the places between, and one more."""
    taken = set(scores.values())
    places = range(1, int(-min(taken, default=0)) + 2)
    return {**scores, **{f"other {place}": -float(place) for place in places if -place not in taken}}


def first_places(
    relevance: Mapping[str, Mapping[str, int]], scores: Mapping[str, Mapping[str, float]]
) -> dict[str, int | None]:
    """Of each query that has a relevant document, the place of the best such one from 1; None where none was found."""
    found: dict[str, int | None] = {}
    for query, labels in relevance.items():
        right = {document for document, label in labels.items() if label > 0}
        if right:
            own = scores.get(query, {})
            order = sorted(own, key=lambda document: -own[document])
            found[query] = next((place for place, document in enumerate(order, 1) if document in right), None)
    return found
