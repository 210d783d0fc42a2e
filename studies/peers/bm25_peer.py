"""BM25 by `bm25s` over the documents of the test rows, without stemming. Nothing is learned from the training rows."""

from __future__ import annotations

import bm25s

import job


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """The score of each document for its query."""
    assert work.test.pairs is not None
    documents = list(dict.fromkeys(work.test.pairs))
    places = {document: place for place, document in enumerate(documents)}
    index = bm25s.BM25()
    index.index(bm25s.tokenize(documents, stopwords="en", show_progress=False), show_progress=False)
    queries = list(dict.fromkeys(work.test.texts))
    words = bm25s.tokenize(queries, stopwords="en", show_progress=False, return_ids=False)
    scores = {query: index.get_scores(own) for query, own in zip(queries, words, strict=True)}
    both = zip(work.test.texts, work.test.pairs, strict=True)
    return [float(scores[query][places[document]]) for query, document in both], "bm25s, English stop words left out"


if __name__ == "__main__":
    job.run(answer, ("bm25s",))
