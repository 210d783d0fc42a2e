"""Near-duplicates of texts that are known: labelling them would teach little that is new."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable

from warmstart.data.split import fold_text

SIMILARITY = 0.9
"""The share of words (Jaccard) from which on two texts count as near-duplicates."""
_WORD = re.compile(r"\w+")


class KnownTexts:
    """Texts that a new one is compared with, whatever their case, spacing, punctuation and order of words.

    A text is looked up by its rarest words: of those that differ in a tenth of their words at most, one must be shared.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._words: list[frozenset[str]] = []
        self._by_word: defaultdict[str, list[int]] = defaultdict(list)
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Take a text in."""
        words = _words(text)
        for word in words:
            self._by_word[word].append(len(self._words))
        self._words.append(words)

    def has_near_duplicate(self, text: str) -> bool:
        """Whether a text that was taken in is almost the same."""
        words = _words(text)
        rarest = sorted(words, key=lambda word: (len(self._by_word.get(word, ())), word))
        # A near-duplicate lacks at most this many of the words.
        lacking = math.floor((1 - SIMILARITY) * len(words) + 1e-9)
        candidates = {number for word in rarest[: lacking + 1] for number in self._by_word.get(word, ())}
        return any(_jaccard(words, self._words[number]) >= SIMILARITY for number in candidates)


def _words(text: str) -> frozenset[str]:
    folded = fold_text(text)
    return frozenset(_WORD.findall(folded)) or frozenset((folded,))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)
