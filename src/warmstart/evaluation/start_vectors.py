"""Vectors of a run's texts by the encoder that it started from, which has seen none of their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.run import RunFolder
from warmstart.inference.features import Extractor
from warmstart.runtime.progress import Progress, silent


def start_vectors(
    run: RunFolder, rows: Iterable[Mapping[str, Any]], count: int, progress: Progress = silent
) -> NDArray[np.float64]:
    """A vector of length 1 for each row, whose texts are read as the finished run reads them.

    Args:
        rows: With `text`, and for a pair `pair`; anything else in them is left aside.
        count: How many rows there are.
    """
    window = run.completed_recipe.window
    tokens = window.slice_tokens or window.max_tokens if window.method == "slices" else window.max_tokens
    extractor = Extractor.load(run.recipe.model, max_tokens=tokens, window=window.method_or_head, precision="auto")
    texts = ({name: row[name] for name in ("text", "pair") if name in row} for row in rows)
    with progress.bar("vectors", count) as bar:
        vectors = np.concatenate([chunk for _, chunk in extractor.stream(texts, advance=bar.advance)]).astype(float)
    unit: NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
