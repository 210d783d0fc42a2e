"""A sentence encoder that is not trained: documents by the cosine of their embeddings with that of the query.

Runs in the project's own venv. Nothing is learned from the training rows.
"""

from __future__ import annotations

import numpy as np
from sentence_transformers import SentenceTransformer

import job


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Compare each document with its query."""
    encoder = SentenceTransformer(work.model, device="cpu")
    encoder.max_seq_length = work.max_tokens
    return similarities(encoder, work.test), "cosine of embeddings, nothing trained"


def similarities(encoder: SentenceTransformer, rows: job.Rows) -> list[float]:
    """The cosine of the two texts of each row."""
    assert rows.pairs is not None
    sides = []
    for texts in (rows.texts, rows.pairs):
        known = list(dict.fromkeys(texts))
        vectors = dict(zip(known, encoder.encode(known, normalize_embeddings=True), strict=True))
        sides.append(np.stack([vectors[text] for text in texts]))
    return (sides[0] * sides[1]).sum(axis=1).astype(float).tolist()


if __name__ == "__main__":
    job.run(answer, ("sentence-transformers", "torch"))
