"""A map of the evaluated rows: the embeddings of the fine-tuned encoder in two dimensions, wrong answers marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from warmstart.data.schema import Schema
from warmstart.diagnosis.answer_labels import labels_of
from warmstart.diagnosis.data_profile import LABEL_KINDS
from warmstart.diagnosis.evaluated_rows import EvaluatedRows
from warmstart.evaluation.records.data_profile import EmbeddingMap
from warmstart.inference.features import Extractor
from warmstart.runtime.progress import Progress

MOST_ROWS = 500
"""Rows on a map; more could not be told apart."""
FEWEST_ROWS = 3
DIGITS = 3


def map_rows(rows: EvaluatedRows, schema: Schema, folder: Path, progress: Progress) -> EmbeddingMap | None:
    """The map of a run's evaluated rows; None for a task without labels or one text a row, or for too few rows.

    Args:
        folder: The run.
    """
    texts, truth, answer = rows.columns.get("text"), rows.truth, schema.answer
    if texts is None or truth is None or answer is None or answer.kind not in LABEL_KINDS or len(rows) < FEWEST_ROWS:
        return None
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int).tolist()
    pairs = rows.columns.get("pair")
    inputs = [{"text": texts[index]} | ({"pair": pairs[index]} if pairs else {}) for index in chosen]
    with progress.bar("embedding", len(chosen)) as bar:
        extractor = Extractor.load(folder)
        vectors = np.concatenate([part for _, part in extractor.stream(inputs, advance=bar.advance)])
    # The full decomposition: the same signs each time.
    pca = PCA(2, svd_solver="full").fit(vectors)
    x, y = np.round(pca.transform(vectors).astype(float), DIGITS).T.tolist()
    labels = [labels_of(truth[index]) for index in chosen]
    return EmbeddingMap(
        rows.part,
        len(rows),
        [float(share) for share in np.nan_to_num(pca.explained_variance_ratio_)],
        x,
        y,
        [own[0] if len(own) == 1 and answer.kind != "entities" else "" for own in labels],
        [bool(rows.scores[index] < 1 and rows.prediction(index) != truth[index]) for index in chosen],
    )
