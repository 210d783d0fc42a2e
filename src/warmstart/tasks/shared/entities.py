"""Entities of a text: spans that must lie in it, and rows of tags to compare."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from warmstart.text import tag_schemes as schemes

Entities: TypeAlias = Sequence[Mapping[str, Any]]
"""Entities, each with `start`, `end` and `label`."""


def check_entities(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with the `words` and `entities` of a row: the kind of fault and the message, or None."""
    text = row["text"]
    for name, kind in (("words", "word-place"), ("entities", "entity-place")):
        for item in row.get(name) or ():
            start, end = item["start"], item["end"]
            if end > len(text):
                what = f"{name!r}: found the span {start} to {end}, but the text has {len(text)} characters"
                return kind, f"{what}. Expected spans inside it, counted in characters from 0, the end not included."
            if not text[start:end].strip():
                return kind, f"{name!r}: from {start} to {end} there is only whitespace. Expected text there."
    for item in row.get("entities") or ():
        expected, actual = item.get("text"), text[item["start"] : item["end"]]
        if expected is not None and expected != actual:
            what = f"'entities': {expected!r} should be at {item['start']} to {item['end']}, but there is {actual!r}"
            return "entity-name", f"{what}. Correct the span, which counts characters from 0."
    for name, kind in (("words", "word-overlap"), ("entities", "entity-overlap")):
        for before, after in pairwise(row.get(name) or ()):
            if after["start"] < before["end"]:
                spans = f"{before['start']} to {before['end']} and {after['start']} to {after['end']}"
                return kind, f"{name!r}: {spans} overlap. Expected one after the other: keep one of the two."
    return None


def segments(truth: Entities, predicted: Entities) -> tuple[list[str], list[str]]:
    """Two sets of entities of one text as rows of BIO tags, over the text split wherever one of them begins or ends.

    So two entities are the same in the tags just if they are the same characters with the same label.
    """
    cuts = sorted({edge for entity in (*truth, *predicted) for edge in (entity["start"], entity["end"])})

    def tags(entities: Entities) -> list[str]:
        spans = [
            (bisect_left(cuts, entity["start"]), bisect_left(cuts, entity["end"]), entity["label"])
            for entity in entities
        ]
        return schemes.spans_to_tags(spans, len(cuts) - 1, "BIO") if spans else ["O"] * max(len(cuts) - 1, 0)

    return tags(truth), tags(predicted)


def row_f1(truth: Entities, predicted: Entities) -> float:
    """F1 of the entities predicted for one text."""
    gold, given = ({(one["start"], one["end"], one["label"]) for one in some} for some in (truth, predicted))
    return 2 * len(gold & given) / (len(gold) + len(given)) if gold or given else 1.0


def matched(truth: Entities, predicted: Entities) -> list[tuple[str, str, str]]:
    """True and predicted entities of one text side by side: both types, `O` for none, and what is wrong, or `right`.

    Those of the same span belong together; then, from left to right, those that share a character.
    """
    left = {(entity["start"], entity["end"]): entity["label"] for entity in predicted}
    pairs, unmatched = [], []
    for entity in truth:
        label = left.pop((entity["start"], entity["end"]), None)
        if label is None:
            unmatched.append(entity)
        else:
            pairs.append((entity["label"], label, "right" if label == entity["label"] else "type"))
    for entity in unmatched:
        span = next((at for at in sorted(left) if at[0] < entity["end"] and entity["start"] < at[1]), None)
        if span is None:
            pairs.append((entity["label"], "O", "missed"))
            continue
        label = left.pop(span)
        pairs.append((entity["label"], label, "boundary" if label == entity["label"] else "type and boundary"))
    return [*pairs, *(("O", label, "spurious") for label in left.values())]
