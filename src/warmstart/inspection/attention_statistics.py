"""What attention heads do on a data set: statistics of their maps over many texts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import RunError
from warmstart.inspection.attention import AttentionMaps
from warmstart.inspection.patterns import PATTERNS, find_patterns

WordKinds = Mapping[str, Callable[[str], bool]]
"""Kinds of words by name, each with whether a token is of it."""


def is_punctuation(token: str) -> bool:
    """Whether a token is punctuation, of any script."""
    return bool(token) and all(unicodedata.category(character)[0] == "P" for character in token)


def is_number(token: str) -> bool:
    """Whether a token is a number."""
    return token.isnumeric()


KINDS: WordKinds = {"punctuation": is_punctuation, "number": is_number}


def word_kind(words: Iterable[str]) -> Callable[[str], bool]:
    """Whether a token is one of some words, in any case."""
    wanted = {word.casefold() for word in words}
    return lambda token: token.casefold() in wanted


@dataclass(frozen=True)
class HeadStatistics:
    """What one head does, on average over the texts."""

    head: str
    """The numbers of its block and of the head, as in `3.7`."""
    entropy: float
    """How widely a token spreads its attention: 0 for all of it on one token, 1 for the same on every token."""
    special: float
    """The share of attention that goes to special tokens."""
    distance: float
    """How many places away attention goes."""
    pattern: str
    """The most frequent of the five patterns."""
    patterns: dict[str, float]
    """The share of texts with each pattern."""
    kinds: dict[str, float | None]
    """How many times as much attention words of a kind get as other words, on average; None where there are none."""


@dataclass(frozen=True)
class AttentionStatistics:
    """What all heads do."""

    texts: int
    tokens: int
    heads: list[HeadStatistics]

    def patterns_by_layer(self) -> list[dict[str, float]]:
        """The share of each pattern over the heads of each layer."""
        layers: dict[str, list[dict[str, float]]] = {}
        for head in self.heads:
            layers.setdefault(head.head.partition(".")[0], []).append(head.patterns)
        return [{name: sum(one[name] for one in heads) / len(heads) for name in PATTERNS} for heads in layers.values()]


class _Sums:
    """Sums over texts, each of shape (layers, heads)."""

    def __init__(self, kinds: WordKinds, shape: tuple[int, int]) -> None:
        self.kinds = kinds
        self.texts = self.tokens = 0
        self.entropy, self.special, self.distance = (np.zeros(shape) for _ in range(3))
        self.patterns = np.zeros((*shape, len(PATTERNS)))
        self.of_kind = {name: np.zeros(shape) for name in kinds}
        self.expected = dict.fromkeys(kinds, 0.0)

    def add(self, maps: AttentionMaps) -> None:
        weights, count = maps.weights, len(maps.tokens)
        self.texts, self.tokens = self.texts + 1, self.tokens + count
        places = np.arange(count)
        surprise = -(weights * np.log(np.maximum(weights, 1e-12))).sum(axis=-1).mean(axis=-1)
        self.entropy += surprise / max(math.log(count), 1e-12)
        received = weights.mean(axis=-2)
        self.special += received[..., maps.is_special].sum(axis=-1)
        self.distance += (weights * np.abs(places[:, None] - places)).sum(axis=-1).mean(axis=-1)
        self.patterns += np.eye(len(PATTERNS))[find_patterns(weights, maps.segments)]
        self._add_kinds(maps, received)

    def _add_kinds(self, maps: AttentionMaps, received: NDArray[np.float32]) -> None:
        words = ~maps.is_special
        all_words = received[..., words].sum(axis=-1)
        for name, is_kind in self.kinds.items():
            chosen = words & np.array([is_kind(token) for token in maps.tokens])
            if chosen.any() and not chosen[words].all():
                self.of_kind[name] += received[..., chosen].sum(axis=-1) / np.maximum(all_words, 1e-12)
                self.expected[name] += chosen.sum() / words.sum()


def attention_statistics(maps: Iterable[AttentionMaps], kinds: WordKinds = KINDS) -> AttentionStatistics:
    """Statistics of every head over the maps of many texts.

    Args:
        kinds: Kinds of words whose share of the attention is measured, among the words that are no special tokens.
    """
    sums: _Sums | None = None
    for text in maps:
        layers, heads = text.weights.shape[:2]
        sums = sums or _Sums(kinds, (layers, heads))
        sums.add(text)
    if sums is None:
        raise RunError("there are no texts to read attention of; give some")
    return AttentionStatistics(sums.texts, sums.tokens, [_head(sums, *place) for place in np.ndindex(layers, heads)])


def _head(sums: _Sums, layer: int, head: int) -> HeadStatistics:
    shares = sums.patterns[layer, head] / sums.texts
    entropy, special, distance = (
        float(total[layer, head] / sums.texts) for total in (sums.entropy, sums.special, sums.distance)
    )
    kinds = {
        name: float(total[layer, head] / sums.expected[name]) if sums.expected[name] else None
        for name, total in sums.of_kind.items()
    }
    by_name = {name: float(share) for name, share in zip(PATTERNS, shares, strict=True)}
    pattern = PATTERNS[int(shares.argmax())]
    return HeadStatistics(f"{layer}.{head}", entropy, special, distance, pattern, by_name, kinds)
