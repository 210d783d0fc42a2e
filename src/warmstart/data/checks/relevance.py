"""Judgements of relevance: queries for which there is nothing to find."""

from __future__ import annotations

from warmstart.data.checks.collector import Sightings, shown


def check_relevance(seen: Sightings, query: str, answer: str) -> None:
    """Tell of queries that have no relevant document, at their first row; only their hashes are kept."""
    first: dict[int, int] = {}
    found: set[int] = set()
    row = 0
    for texts, labels in seen.table.arrays([query, answer]):
        for text, label in zip(texts.to_pylist(), labels.to_pylist(), strict=True):
            first.setdefault(hash(text), row)
            if label > 0:
                found.add(hash(text))
            row += 1
    alone = sorted(place for key, place in first.items() if key not in found)
    texts = {place: text for place, text in enumerate(seen.table.column(query)) if place in set(alone[:1])}
    seen.see_all("query-alone", alone, lambda place: f"no row says what is relevant to {shown(texts[place])}")
