"""Which documents are relevant to which query by any training row, known while only a batch of rows is at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def text_key(ids: Sequence[int]) -> int:
    """A number for a text by its tokens, the same in every process; two texts share one by chance in 2⁶⁴."""
    digest = hashlib.blake2b(np.array(ids, dtype=np.int64).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True)
class RelevantPairs:
    """Every relevant pair of a query and a document, by their keys: 16 bytes each, so all rows fit into memory."""

    queries: npt.NDArray[np.int64]
    """Sorted, once for each of a query's documents."""
    documents: npt.NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> RelevantPairs:
        """Of pairs in any order, each a query and a document."""
        keys = np.fromiter((key for pair in pairs for key in pair), dtype=np.int64).reshape(-1, 2)
        queries, documents = np.unique(keys, axis=0).T
        return cls(np.ascontiguousarray(queries), np.ascontiguousarray(documents))

    def documents_of(self, query: int) -> list[int]:
        """The documents that are relevant to a query."""
        start, end = (np.searchsorted(self.queries, query, side) for side in ("left", "right"))
        documents: list[int] = self.documents[start:end].tolist()
        return documents
