"""Relevance judgements: queries without any relevant document."""

from __future__ import annotations

from warmstart.data.checks.collector import FindingCollector, shown


def check_relevance(collector: FindingCollector, query: str, answer: str) -> None:
    """Report queries that have no relevant document, at their first row; only their hashes are stored."""
    first: dict[int, int] = {}
    answered: set[int] = set()
    row = 0
    for texts, labels in collector.table.arrays([query, answer]):
        for text, label in zip(texts.to_pylist(), labels.to_pylist(), strict=True):
            first.setdefault(hash(text), row)
            if label > 0:
                answered.add(hash(text))
            row += 1
    alone = sorted(row for key, row in first.items() if key not in answered)
    texts = {row: text for row, text in enumerate(collector.table.column(query)) if row in set(alone[:1])}
    collector.add_rows("query-alone", alone, lambda row: f"no row names a relevant document for {shown(texts[row])}")
