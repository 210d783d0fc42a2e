"""Entities beside their text: places that must lie in it, and rows of tags to compare."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from warmstart.text import tag_schemes as schemes


def check_entities(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """Find what is wrong with the `words` and `entities` of a row: the kind of fault and what to tell, or None."""
    text = row["text"]
    for name, kind in (("words", "word-place"), ("entities", "entity-place")):
        for item in row.get(name) or ():
            start, end = item["start"], item["end"]
            if end > len(text):
                what = f"{name!r}: found the place {start} to {end}, but the text has {len(text)} characters"
                return kind, f"{what}. Expected places in it, counted in characters from 0, the end not included."
            if not text[start:end].strip():
                return kind, f"{name!r}: from {start} to {end} there is only white space. Expected text there."
    for item in row.get("entities") or ():
        told, found = item.get("text"), text[item["start"] : item["end"]]
        if told is not None and told != found:
            what = f"'entities': {told!r} is said to stand at {item['start']} to {item['end']}, where {found!r} stands"
            return "entity-name", f"{what}. Correct the place, which counts characters from 0."
    for name, kind in (("words", "word-overlap"), ("entities", "entity-overlap")):
        for one, two in pairwise(row.get(name) or ()):
            if two["start"] < one["end"]:
                places = f"{one['start']} to {one['end']} and {two['start']} to {two['end']}"
                return kind, f"{name!r}: {places} overlap. Expected one after the other: keep one of the two."
    return None


def segments(gold: Sequence[Any], given: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Two sets of entities of one text as rows of BIO tags, over the text cut wherever one of them begins or ends.

    So two entities are the same in the tags just if they are the same characters with the same label.
    """
    cuts = sorted({place for entity in (*gold, *given) for place in (entity["start"], entity["end"])})

    def tags(entities: Sequence[Any]) -> list[str]:
        spans = [(bisect_left(cuts, one["start"]), bisect_left(cuts, one["end"]), one["label"]) for one in entities]
        return schemes.tags(spans, len(cuts) - 1, "BIO") if spans else ["O"] * max(len(cuts) - 1, 0)

    return tags(gold), tags(given)


def row_f1(gold: Sequence[Any], given: Sequence[Any]) -> float:
    """F1 of the entities given for one text."""
    true, found = ({(one["start"], one["end"], one["label"]) for one in some} for some in (gold, given))
    return 2 * len(true & found) / (len(true) + len(found)) if true or found else 1.0


def matched(gold: Sequence[Any], given: Sequence[Any]) -> list[tuple[str, str, str]]:
    """True and given entities of one text side by side: both types, `O` for none, and what is wrong, or `right`.

    Those of the same place belong together; then, from left to right, those that share a character.
    """
    left = {(one["start"], one["end"]): one["label"] for one in given}
    found, open_ = [], []
    for one in gold:
        label = left.pop((one["start"], one["end"]), None)
        if label is None:
            open_.append(one)
        else:
            found.append((one["label"], label, "right" if label == one["label"] else "type"))
    for one in open_:
        place = next((at for at in sorted(left) if at[0] < one["end"] and one["start"] < at[1]), None)
        if place is None:
            found.append((one["label"], "O", "missed"))
            continue
        label = left.pop(place)
        found.append((one["label"], label, "boundary" if label == one["label"] else "type and boundary"))
    return [*found, *(("O", label, "spurious") for label in left.values())]
