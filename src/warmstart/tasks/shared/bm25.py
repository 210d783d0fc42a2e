"""Documents ranked by BM25, by bm25s: the words that they share with a query, rare words counting most."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType

import numpy as np
import numpy.typing as npt

from warmstart.data.split import fold_text
from warmstart.errors import MissingExtraError
from warmstart.tasks.shared.tagging_units import ALONE

Scores = npt.NDArray[np.float32]
READ = 1000
"""Documents whose letters decide whether they have words or characters."""
CHARACTERS = (1, 2)
"""The lengths of the character n-grams that are counted in scripts without spaces between words."""


class Bm25:
    """Documents that can be searched by their words, without case; no stop words, no stemming.

    Where at least half of the letters are of scripts without spaces between words, such as Chinese, Japanese and Thai,
    single characters and pairs of adjacent ones take the place of words, and spaces are left out.

    Attributes:
        counts: What is counted: `words` or `characters`.
    """

    def __init__(self, documents: Sequence[str]) -> None:
        self.counts = "characters" if without_spaces(documents[:READ]) else "words"
        self.terms = _analyzer(self.counts)
        self.size = len(documents)
        terms = [self.terms(text) for text in documents]
        self.index = None
        if any(terms):
            self.index = _bm25s().BM25()
            self.index.index(terms, create_empty_token=False, show_progress=False)

    def scores(self, query: str) -> Scores:
        """The score of each document; 0 where it shares nothing with the query."""
        known = self.index.get_tokens_ids(self.terms(query)) if self.index is not None else []
        if self.index is None or not known:
            return np.zeros(self.size, dtype=np.float32)
        scores: Scores = self.index.get_scores_from_ids(known)
        return scores

    def closest(self, query: str, top: int) -> tuple[list[int], Scores]:
        """Indices of the `top` best documents, best first, of equal ones the earlier first; and the score of each.

        A document that shares nothing with the query is not among them.
        """
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[:top]
        return order[scores[order] > 0].tolist(), scores


def without_spaces(texts: Sequence[str]) -> bool:
    """Whether at least half of the letters are of scripts that put no space between words."""
    letters = [character for text in texts for character in text if character.isalpha()]
    return bool(letters) and 2 * sum(map(_stands_alone, letters)) >= len(letters)


@lru_cache(maxsize=1 << 16)
def _stands_alone(character: str) -> bool:
    return unicodedata.name(character, "").startswith(ALONE)


def _analyzer(counts: str) -> Callable[[str], list[str]]:
    """What splits a text into the terms that are counted."""
    from sklearn.feature_extraction.text import CountVectorizer

    if counts == "words":
        vectorizer = CountVectorizer(preprocessor=fold_text, token_pattern=r"\w+")
    else:
        vectorizer = CountVectorizer(preprocessor=_without_white_space, analyzer="char", ngram_range=CHARACTERS)
    analyzer: Callable[[str], list[str]] = vectorizer.build_analyzer()
    return analyzer


def _without_white_space(text: str) -> str:
    return fold_text(text).replace(" ", "")


def _bm25s() -> ModuleType:
    try:
        import bm25s
    except ImportError:
        raise MissingExtraError("BM25 needs bm25s: pip install 'warmstart[rank]'") from None
    module: ModuleType = bm25s
    return module
