"""A text as a tagging head reads it: which pieces say a unit's tag, what it is, and in which window it is read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from warmstart.tasks.base import Feature
from warmstart.tasks.shared.tagging_units import Place, best_views, covering
from warmstart.text import tag_schemes as schemes
from warmstart.text.alignment import Pieces, owners
from warmstart.text.windows import Frame, Window, slices

TAKEN = {"first": slice(0, 1), "last": slice(-1, None), "all": slice(None)}
"""Which of a unit's pieces say its tag."""


def scored_pieces(units: Sequence[Place], cut: Pieces, taken: str) -> tuple[list[Place], list[list[int]]]:
    """The units that have a piece, and of each the numbers of the pieces that say its tag."""
    own: dict[int, list[int]] = {}
    for number, owner in enumerate(owners(cut.places, units)):
        if owner >= 0:
            own.setdefault(owner, []).append(number)
    return [units[unit] for unit in own], [numbers[TAKEN[taken]] for numbers in own.values()]


def target_tags(
    units: Sequence[Place], entities: Sequence[Any], scheme: Literal["BIO", "IOBES"]
) -> tuple[list[str], int]:
    """The tag of each unit, and how many entities begin or end inside a unit: they are learned as all they touch."""
    spans: list[schemes.Span] = []
    lost = taken = 0
    for entity in entities:
        touched = covering(units, entity["start"], entity["end"])
        place = (units[touched[0]][0], units[touched[1] - 1][1]) if touched else None
        lost += place != (entity["start"], entity["end"])
        if touched and touched[0] >= taken:
            spans.append((*touched, entity["label"]))
            taken = touched[1]
    return schemes.tags(spans, len(units), scheme), lost


def word_tags(words: Sequence[Any], entities: Sequence[Any], scheme: Literal["BIO", "IOBES"]) -> list[str]:
    """The entities as a tag for each given word, one without a piece included."""
    return target_tags([(word["start"], word["end"]) for word in words], entities, scheme)[0]


def windowed(
    cut: Pieces, scored: Sequence[Sequence[int]], frame: Frame, window: Window
) -> Iterator[tuple[Feature, range, list[list[int]]]]:
    """A feature for each window, the units that are read in it, and the tokens of it that say their tags.

    Every unit is read in one window, where it has most context; nothing of the text is cut.
    """
    length = len(cut.ids)
    views = slices(length, window.max_tokens - frame.size, window.overlap)
    views_of = best_views(scored, views, length)
    for number, (start, stop) in enumerate(views):
        own = range(bisect_left(views_of, number), bisect_left(views_of, number + 1))
        shift = len(frame.before) - start
        at = [[token + shift for token in scored[unit] if start <= token < stop] for unit in own]
        yield {**frame.put_around(cut.ids[start:stop]), "tokens": 0 if number else length, "cut": 0}, own, at
