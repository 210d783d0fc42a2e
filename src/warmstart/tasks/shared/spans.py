"""Answers as stretches of a context: compared with it, and read from a model's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warmstart.text.alignment import Place

KEPT = 20
"""Candidates kept of a window, and of a context: the best ones."""


@dataclass(frozen=True)
class Reading:
    """What a window says: its best candidates, as score and place in the context, and the score of there being none."""

    spans: tuple[tuple[float, Place], ...]
    none: float


def stands(context: str, answer: Mapping[str, Any]) -> bool:
    """Whether an answer stands in its context where it says."""
    return answer["start"] >= 0 and context.startswith(answer["text"], answer["start"])


def nearest_start(context: str, answer: Mapping[str, Any]) -> int | None:
    """Where an answer's text begins in the context, nearest to where it says; the earlier of two as near."""
    text, start = answer["text"], max(answer["start"], 0)
    before = context.rfind(text, 0, start + len(text))
    after = context.find(text, start)
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start)) if found else None


def misplaced(context: str, answer: Mapping[str, Any]) -> str:
    """What is wrong with an answer that does not stand where it says, as a sentence."""
    text, start = answer["text"], answer["start"]
    there = context[start : start + len(text)] if start >= 0 else ""
    nearest = nearest_start(context, answer)
    where = "nowhere in the context" if nearest is None else f"nearest at {nearest}"
    return f"the answer {shown(text)} is not at {start}, where {shown(there)} stands; it is found {where}"


def shown(text: str) -> str:
    """The start of a text, in quotes."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def best_spans(starts: Any, ends: Any, places: Sequence[Place], longest: int) -> tuple[tuple[float, Place], ...]:
    """The candidates of the highest sum of start and end score, best first.

    Args:
        starts: The score of each token as the first of the answer.
        ends: As the last.
        longest: The most tokens of a candidate.
    """
    if not places:
        return ()
    width = min(longest, len(places))
    # A token without characters of its own can neither begin nor end an answer.
    empty = torch.tensor([start >= end for start, end in places])
    low = -torch.inf
    beyond = torch.full((width - 1,), low)
    last = torch.cat([ends.masked_fill(empty, low), beyond]).unfold(0, width, 1)
    sums = (starts.masked_fill(empty, low)[:, None] + last).flatten()
    scores, chosen = sums.topk(min(KEPT, len(sums)))
    found = []
    for score, index in zip(scores.tolist(), chosen.tolist(), strict=True):
        if score > low:
            first, more = divmod(index, width)
            found.append((score, (places[first][0], max(places[first][1], places[first + more][1]))))
    return tuple(found)


def merge(readings: Sequence[Reading]) -> Reading:
    """The best candidates of all windows of a context, each once; none is the answer only where no window has one."""
    found: dict[Place, float] = {}
    for reading in readings:
        for score, span in reading.spans:
            found[span] = max(score, found.get(span, score))
    ranked = sorted(((score, span) for span, score in found.items()), key=lambda one: (-one[0], one[1]))
    return Reading(tuple(ranked[:KEPT]), min(reading.none for reading in readings))
