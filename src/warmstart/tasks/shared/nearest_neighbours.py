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
    """Vectors that can be searched by inner product."""

    def __init__(self, vectors: Vectors) -> None:
        self.index = _faiss().IndexFlatIP(vectors.shape[1])
        self.index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def closest(self, queries: Vectors, top: int) -> tuple[Scores, Indices]:
        """Scores and indices of the `top` closest to each query, closest first; of equal ones the earlier first."""
        wanted = np.ascontiguousarray(queries, dtype=np.float32)
        scores, indices = self.index.search(wanted, min(top, len(self)))
        order = np.lexsort((indices, -scores), axis=-1)
        return np.take_along_axis(scores, order, axis=-1), np.take_along_axis(indices, order, axis=-1)


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("searching documents needs faiss: pip install 'warmstart[rank]'") from None
    module: ModuleType = faiss
    return module
