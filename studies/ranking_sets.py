"""Public sets of queries with documents that are relevant or not, for studies of `rank`.

| set | queries to learn from | test queries | documents of a test query |
| --- | --- | --- | --- |
| wikiqa | those of its training part that have an answer | those of its test part that have one | its own |
| cranfield | half of them | the other half | those that were judged, and others of the collection up to 50 |
"""

from __future__ import annotations

import random
from collections.abc import Callable

from set_files import MEASURE, candidates
from task_sets import _smart

Row = dict[str, object]
Parts = tuple[list[Row], list[Row]]
CANDIDATES = 50


def wikiqa() -> Parts:
    """Questions, and the sentences of an article that may answer them."""
    train, test = (_answered(candidates(MEASURE / "wikiqa" / f"{part}.txt")) for part in ("train", "test"))
    return train, test


def _answered(rows: list[Row]) -> list[Row]:
    """The rows of queries that have a relevant document."""
    answered = {row["query"] for row in rows if row["label"]}
    return [row for row in rows if row["query"] in answered]


def cranfield() -> Parts:
    """Questions about aerodynamics, and abstracts."""
    folder = MEASURE / "cranfield"
    documents = {
        number: " ".join(f"{part['T']} {part['W']}".split()) for number, part in _smart(folder / "cran.all.1400")
    }
    documents = {number: text for number, text in documents.items() if text}
    # Judgements name a query by its place.
    queries = [" ".join(part["W"].split()) for _, part in _smart(folder / "cran.qry")]
    judged: dict[int, dict[int, int]] = {}
    for line in (folder / "cranqrel").read_text(encoding="utf-8").split("\n"):
        if line.strip():
            query, document, code = map(int, line.split())
            judged.setdefault(query, {})[document] = 1 if code > 0 else 0
    mixed = random.Random(0).sample(sorted(judged), len(judged))
    half = len(mixed) // 2
    train: list[Row] = []
    test: list[Row] = []
    for place, query in enumerate(mixed):
        labels = {number: label for number, label in judged[query].items() if number in documents}
        if place >= half:
            others = [number for number in documents if number not in labels]
            few = random.Random(query).sample(others, max(0, CANDIDATES - len(labels)))
            labels |= dict.fromkeys(few, 0)
        rows = [{"query": queries[query - 1], "document": documents[key], "label": labels[key]} for key in labels]
        (train if place < half else test).extend(rows)
    return train, _answered(test)


RANKING: dict[str, Callable[[], Parts]] = {"wikiqa": wikiqa, "cranfield": cranfield}
