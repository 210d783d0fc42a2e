"""The closest of many vectors, found by faiss: every one is looked at, so nothing is missed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warmstart.errors import MissingExtra

Vectors = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


class Neighbours:
    """Vectors that can be searched by inner product."""

    def __init__(self, vectors: Vectors) -> None:
        self.index = _faiss().IndexFlatIP(vectors.shape[1])
        self.index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def closest(self, queries: Vectors, top: int) -> tuple[Scores, Places]:
        """Scores and places of the `top` closest to each query, closest first; of equal ones the earlier first."""
        wanted = np.ascontiguousarray(queries, dtype=np.float32)
        scores, places = self.index.search(wanted, min(top, len(self)))
        order = np.lexsort((places, -scores), axis=-1)
        return np.take_along_axis(scores, order, axis=-1), np.take_along_axis(places, order, axis=-1)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtra("searching documents needs faiss: pip install 'warmstart[rank]'") from None
    return faiss
