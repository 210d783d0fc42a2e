"""The closest of many vectors, by faiss: every one is compared, so nothing is missed."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import numpy.typing as npt

from warmstart.errors import MissingExtraError

Vectors = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


class Neighbours:
    """Vectors that can be searched: by inner product, or by Euclidean distance, of which the score is the negative."""

    def __init__(self, vectors: Vectors, distance_metric: str = "cosine") -> None:
        faiss = _faiss()
        self.euclidean = distance_metric == "euclidean"
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self.index = (faiss.IndexFlatL2 if self.euclidean else faiss.IndexFlatIP)(vectors.shape[1])
        self.index.add(self.vectors)

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def closest(self, queries: Vectors, top: int) -> tuple[Scores, Indices]:
        """Scores and indices of the `top` closest to each query, closest first; of equal ones the earlier first."""
        wanted = np.ascontiguousarray(queries, dtype=np.float32)
        scores, indices = self.index.search(wanted, min(top, len(self)))
        if self.euclidean:  # faiss's are squared, and inexact where they are small
            scores = np.stack([self.scores(query, row) for query, row in zip(wanted, indices, strict=True)])
        order = np.lexsort((indices, -scores), axis=-1)
        return np.take_along_axis(scores, order, axis=-1), np.take_along_axis(indices, order, axis=-1)

    def scores(self, query: Vectors, indices: Indices | slice = slice(None)) -> Scores:
        """The scores of some vectors, by default of all, for a query."""
        vectors = self.vectors[indices]
        scores: Scores = -np.linalg.norm(vectors - query, axis=1) if self.euclidean else vectors @ query
        return scores


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("searching documents needs faiss: pip install 'warmstart[rank]'") from None
    module: ModuleType = faiss
    return module
