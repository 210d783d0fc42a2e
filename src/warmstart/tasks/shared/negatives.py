"""Negatives of a training row: documents judged not relevant, and hard negatives that are mined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from warmstart.tasks.base import Columns
from warmstart.tasks.shared.nearest_neighbours import Neighbours, Vectors

MAX_SHARE = 0.95
"""A document that scores above this share of the row's own is probably relevant and unjudged, and is not taken
("NV-Retriever", de Souza P. Moreira et al. 2024, §4.1: TopK-PercPos)."""
DEPTH = 100
"""How many of the closest documents are searched beyond the known ones."""
QUERIES = 1024
"""Queries searched at a time."""

Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class Wanted:
    """How many negatives of each kind a row is trained with."""

    judged: int
    mined: int
    random: int = 0


@dataclass(frozen=True)
class KnownRelevance:
    """Which documents are relevant to which query, by number; built from all training rows."""

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    query_of: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The number of each row's query."""
    document_of: np.ndarray[tuple[int], np.dtype[np.int64]]
    relevant: Mapping[int, frozenset[int]]
    """By query, its relevant documents."""
    not_relevant: Mapping[int, tuple[int, ...]]
    """By query, the documents that were judged not relevant, in the order of the rows."""
    number_of: Mapping[str, int] = field(repr=False)
    """The number of each document."""

    @classmethod
    def from_rows(cls, queries: Sequence[str], documents: Sequence[str], labels: Sequence[float]) -> KnownRelevance:
        """Number the texts in the order they are first seen."""
        by_query = {text: number for number, text in enumerate(dict.fromkeys(queries))}
        by_document = {text: number for number, text in enumerate(dict.fromkeys(documents))}
        query_of = np.array([by_query[text] for text in queries])
        document_of = np.array([by_document[text] for text in documents])
        relevant: dict[int, set[int]] = {}
        not_relevant: dict[int, dict[int, None]] = {}
        for query, document, label in zip(query_of.tolist(), document_of.tolist(), labels, strict=True):
            if label > 0:
                relevant.setdefault(query, set()).add(document)
            else:
                not_relevant.setdefault(query, {})[document] = None
        return cls(
            tuple(by_query),
            tuple(by_document),
            query_of,
            document_of,
            {query: frozenset(some) for query, some in relevant.items()},
            # A document judged both ways counts as relevant.
            {query: tuple(d for d in some if d not in relevant.get(query, ())) for query, some in not_relevant.items()},
            by_document,
        )

    def is_relevant(self, row: int, document: str) -> bool:
        """Whether any row says that a document is relevant to the query of this row."""
        return self.number_of.get(document, -1) in self.relevant.get(int(self.query_of[row]), ())


def arrange(
    columns: Columns, wanted: Wanted, vectors: Callable[[Sequence[str], str], Vectors], seed: int
) -> tuple[list[int], list[list[str]], list[str]]:
    """The rows with a relevant document, the negatives of each, and notes for the user.

    Args:
        columns: Of all training rows.
        vectors: Gives the vectors of texts, of the side `query` or `document`.
    """
    known = KnownRelevance.from_rows(columns["query"], columns["document"], columns["label"])
    rows = [row for row, label in enumerate(columns["label"]) if label > 0]
    chosen = judged(known, rows, wanted.judged, seed)
    notes = [f"{len(rows):,} of {len(columns['label']):,} training rows are relevant, and are trained on"]
    if any(chosen):
        notes[0] += f", with {sum(map(len, chosen)):,} documents judged not relevant"
    if wanted.mined:
        both = vectors(known.queries, "query"), vectors(known.documents, "document")
        close = mined(known, rows, wanted.mined, *both)
        chosen = [_joined(*pair) for pair in zip(chosen, close, strict=True)]
        notes.append(f"{sum(map(len, close)):,} hard negatives were mined among the documents close to a query")
    if wanted.random:
        drawn = random(known, rows, wanted.random, seed, chosen)
        chosen = [first + more for first, more in zip(chosen, drawn, strict=True)]
        notes.append(f"{sum(map(len, drawn)):,} negatives were drawn at random from documents not known to be relevant")
    texts = [[known.documents[number] for number in row] for row in chosen]
    if "negative" in columns:
        given = [columns["negative"][row] for row in rows]
        wrong = [known.is_relevant(row, text) for row, text in zip(rows, given, strict=True)]
        texts = [more if no else _joined([text], more) for text, more, no in zip(given, texts, wrong, strict=True)]
        if any(wrong):
            notes.append(f"{sum(wrong):,} negatives are left out: another row says that they are relevant to the query")
    return rows, texts, notes


def _joined(first: list[Key], second: list[Key]) -> list[Key]:
    """Both lists, the second without what the first has."""
    return first + [item for item in second if item not in first]


def judged(known: KnownRelevance, rows: Sequence[int], count: int, seed: int) -> list[list[int]]:
    """Of each row, up to `count` documents judged not relevant to its query, drawn by the seed."""
    chosen = []
    for row in rows:
        choices = known.not_relevant.get(int(known.query_of[row]), ())
        # By row, so that a row's draw does not depend on the rows before it.
        draw = np.random.default_rng((seed, row)).permutation(len(choices))[:count]
        chosen.append([choices[index] for index in draw])
    return chosen


def random(
    known: KnownRelevance, rows: Sequence[int], count: int, seed: int, taken: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Of each row, up to `count` documents not known to be relevant to its query, drawn by the seed.

    Args:
        taken: Of each row the documents that are its negatives already.
    """
    chosen = []
    for row, own in zip(rows, taken, strict=True):
        left_out = sorted({*known.relevant[int(known.query_of[row])], *own})
        others = len(known.documents) - len(left_out)
        rng = np.random.default_rng((seed, row, 1))  # by row too, and other numbers than `judged` draws
        draw = rng.choice(others, min(count, others), replace=False).tolist()
        # Numbers among those that are not left out become numbers among all.
        between = np.array(left_out) - np.arange(len(left_out))
        chosen.append([number + int(np.searchsorted(between, number, "right")) for number in draw])
    return chosen


def mined(
    known: KnownRelevance, rows: Sequence[int], count: int, queries: Vectors, documents: Vectors
) -> list[list[int]]:
    """Of each row, up to `count` documents that are close to its query and not known to be relevant, closest first.

    Where too few are surely less close than the row's own, the least close of those searched fill up.

    Args:
        queries: A vector for each query of `known`.
        documents: A vector for each of its documents.
    """
    index = Neighbours(documents)
    most = max(map(len, known.relevant.values()), default=0)
    chosen: list[list[int]] = [[] for _ in rows]
    by_query: dict[int, list[int]] = {}
    for position, row in enumerate(rows):
        by_query.setdefault(int(known.query_of[row]), []).append(position)
    searched = list(by_query)
    for start in range(0, len(searched), QUERIES):
        some = searched[start : start + QUERIES]
        scores, nearest = index.closest(queries[some], count + most + DEPTH)
        for query, near, numbers in zip(some, scores.tolist(), nearest.tolist(), strict=True):
            others = [(d, score) for d, score in zip(numbers, near, strict=True) if d not in known.relevant[query]]
            for position in by_query[query]:
                own = float(queries[query] @ documents[known.document_of[rows[position]]])
                sure = [document for document, score in others if score < MAX_SHARE * own][:count]
                rest = [document for document, _ in reversed(others) if document not in sure]
                chosen[position] = sure + rest[: count - len(sure)]
    return chosen
