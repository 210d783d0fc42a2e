"""BM25 by `bm25s` over single characters and pairs of them, for scripts without spaces. Nothing is learned."""

from __future__ import annotations

import bm25s

import job


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """The score of each document for its query."""
    assert work.test.pairs is not None
    documents = list(dict.fromkeys(work.test.pairs))
    places = {document: place for place, document in enumerate(documents)}
    index = bm25s.BM25()
    index.index([_parts(document) for document in documents], show_progress=False)
    scores = {query: index.get_scores(_parts(query)) for query in dict.fromkeys(work.test.texts)}
    both = zip(work.test.texts, work.test.pairs, strict=True)
    return [float(scores[query][places[document]]) for query, document in both], "bm25s, characters and pairs of them"


def _parts(text: str) -> list[str]:
    characters = "".join(text.split())
    return [*characters, *(characters[place : place + 2] for place in range(len(characters) - 1))]


if __name__ == "__main__":
    job.run(answer, ("bm25s",))
