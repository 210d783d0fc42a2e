"""The units of a text that get a tag each, and in which window each is read: pure functions on character spans."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

from warmstart.text.alignment import CharSpan

ALONE = ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")
"""How the names of characters begin whose scripts put no space between words."""


def words_of(text: str) -> list[CharSpan]:
    """A raw text split into stretches of letters and digits, and every other sign by itself.

    So is every character of a script without spaces. White space belongs to none, accents and joiners to what they
    follow.
    """
    words: list[CharSpan] = []
    before = "space"
    for position, character in enumerate(text):
        kind = _kind(character)
        if kind == "mark" and before != "space":
            kind = before
            words[-1] = (words[-1][0], position + 1)
        elif kind == before == "letter":
            words[-1] = (words[-1][0], position + 1)
        elif kind != "space":
            words.append((position, position + 1))
        before = kind
    return words


def characters_of(text: str) -> list[CharSpan]:
    """Every character of a text that is no white space."""
    return [(position, position + 1) for position, character in enumerate(text) if not character.isspace()]


def joined(units: Iterable[CharSpan], offsets: Iterable[CharSpan]) -> list[CharSpan]:
    """Units that one token holds parts of, as `'` and `s` of `'s`, become one unit."""
    merged: list[CharSpan] = []
    pending = iter(offsets)
    token = next(pending, None)
    reach = 0  # how far the tokens go that begin in the units so far
    for start, end in units:
        if merged and start < reach:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
        while token is not None and token[0] < end:
            reach = max(reach, token[1])
            token = next(pending, None)
    return merged


def covering(units: Sequence[CharSpan], start: int, end: int) -> tuple[int, int] | None:
    """Which units touch a span of characters, from the first to before the last; None where none does."""
    first = bisect_right(units, start, key=lambda unit: unit[1])
    stop = bisect_left(units, end, key=lambda unit: unit[0])
    return (first, stop) if first < stop else None


def best_views(scored: Sequence[Sequence[int]], views: Sequence[tuple[int, int]], length: int) -> list[int]:
    """For each unit the view of the tokens in which it has the most context on its poorer side.

    Args:
        scored: The tokens of each unit that count, in order.
        views: Ranges of tokens, as `windows.slices` gives them; the ends of the text take no context away.
        length: How many tokens the text has.
    """

    def context(tokens: Sequence[int], view: tuple[int, int]) -> int:
        left = tokens[0] - view[0] if view[0] else length
        right = view[1] - 1 - tokens[-1] if view[1] < length else length
        return min(left, right)

    best, last = [], 0
    for tokens in scored:
        # Units come in order, so their views do as well: only the next few need be compared.
        while last + 1 < len(views) and context(tokens, views[last + 1]) > context(tokens, views[last]):
            last += 1
        best.append(last)
    return best


@lru_cache(maxsize=1 << 16)
def _kind(character: str) -> str:
    """space, mark (an accent, joiner or control character), letter, or sign: what stands by itself."""
    if character.isspace():
        return "space"
    category = unicodedata.category(character)
    if category[0] == "M" or category in {"Cf", "Cc"}:
        return "mark"
    alone = unicodedata.name(character, "").startswith(ALONE)
    return "letter" if category[0] in "LN" and not alone else "sign"
