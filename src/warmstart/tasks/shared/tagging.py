"""A text as a tagging head reads it: which tokens give a unit's tag, what it is, and in which window it is read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from warmstart.tasks.base import FlatFeature
from warmstart.tasks.shared.tagging_units import best_views, covering
from warmstart.tasks.shared.text_inputs import flat
from warmstart.text import tag_schemes as schemes
from warmstart.text.alignment import CharSpan, TokenizedText, word_ids
from warmstart.text.windows import Frame, Window, slices

POOLINGS = {"first": slice(0, 1), "last": slice(-1, None), "mean": slice(None)}
"""Which of a unit's tokens give its tag."""


@dataclass(frozen=True)
class TagWindow:
    """A window of a text, the units that are read in it, and of each the tokens that give its tag."""

    feature: FlatFeature
    units: range
    tokens: list[list[int]]


def tokens_of_units(
    units: Sequence[CharSpan], text: TokenizedText, pooling: str
) -> tuple[list[CharSpan], list[list[int]]]:
    """The units that have a token, and of each the numbers of the tokens that give its tag."""
    own: dict[int, list[int]] = {}
    for number, unit in enumerate(word_ids(text.offsets, units)):
        if unit >= 0:
            own.setdefault(unit, []).append(number)
    return [units[unit] for unit in own], [numbers[POOLINGS[pooling]] for numbers in own.values()]


def target_tags(
    units: Sequence[CharSpan], entities: Sequence[Any], scheme: Literal["BIO", "IOBES"]
) -> tuple[list[str], int]:
    """The tag of each unit, and how many entities begin or end inside a unit: they are extended to all they touch."""
    spans: list[schemes.EntitySpan] = []
    misaligned = taken = 0
    for entity in entities:
        touched = covering(units, entity["start"], entity["end"])
        span = (units[touched[0]][0], units[touched[1] - 1][1]) if touched else None
        misaligned += span != (entity["start"], entity["end"])
        if touched and touched[0] >= taken:
            spans.append((*touched, entity["label"]))
            taken = touched[1]
    return schemes.spans_to_tags(spans, len(units), scheme), misaligned


def word_tags(words: Sequence[Any], entities: Sequence[Any], scheme: Literal["BIO", "IOBES"]) -> list[str]:
    """The entities as a tag for each given word, one without a token included."""
    return target_tags([(word["start"], word["end"]) for word in words], entities, scheme)[0]


def tag_windows(
    text: TokenizedText, scored: Sequence[Sequence[int]], frame: Frame, window: Window
) -> Iterator[TagWindow]:
    """The windows of a text; every unit is read in one, where it has most context, and nothing of the text is cut.

    Args:
        scored: Of each unit the tokens that give its tag.
    """
    length = len(text.ids)
    views = slices(length, window.max_tokens - frame.size, window.overlap)
    views_of = best_views(scored, views, length)
    for number, (start, stop) in enumerate(views):
        own = range(bisect_left(views_of, number), bisect_left(views_of, number + 1))
        shift = len(frame.before) - start
        tokens = [[token + shift for token in scored[unit] if start <= token < stop] for unit in own]
        yield TagWindow(flat(frame.put_around(text.ids[start:stop]), 0 if number else length, 0), own, tokens)
