"""Answers as spans of a context: located in it, and read from a model's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warmstart.text.alignment import CharSpan

MAX_CANDIDATES = 20
"""Candidates kept of a window, and of a context: the best ones."""

ScoredSpan = tuple[float, CharSpan]
"""The score of a span, and its characters."""


@dataclass(frozen=True)
class SpanCandidates:
    """The best candidates of a window, best first, and the score of there being no answer."""

    spans: tuple[ScoredSpan, ...]
    no_answer: float


def is_at_start(context: str, answer: Mapping[str, Any]) -> bool:
    """Whether an answer's text is in its context at the answer's `start`."""
    return answer["start"] >= 0 and context.startswith(answer["text"], answer["start"])


def nearest_start(context: str, answer: Mapping[str, Any]) -> int | None:
    """Where an answer's text begins in the context, nearest to its `start`; the earlier of two as near."""
    text, start = answer["text"], max(answer["start"], 0)
    before = context.rfind(text, 0, start + len(text))
    after = context.find(text, start)
    starts = [position for position in (before, after) if position >= 0]
    return min(starts, key=lambda position: abs(position - start)) if starts else None


def describe_misplaced(context: str, answer: Mapping[str, Any]) -> str:
    """What is wrong with an answer that is not at its `start`, as a sentence."""
    text, start = answer["text"], answer["start"]
    there = context[start : start + len(text)] if start >= 0 else ""
    nearest = nearest_start(context, answer)
    where = "nowhere in the context" if nearest is None else f"nearest at {nearest}"
    return f"the answer {shortened(text)} is not at {start}, where {shortened(there)} stands; it is found {where}"


def shortened(text: str) -> str:
    """The start of a text, in quotes."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def best_spans(
    starts: torch.Tensor, ends: torch.Tensor, offsets: Sequence[CharSpan], max_tokens: int
) -> tuple[ScoredSpan, ...]:
    """The candidates of the highest sum of start and end score, best first.

    Args:
        starts: The score of each token as the first of the answer.
        ends: As the last.
        max_tokens: The most tokens of a candidate.
    """
    if not offsets:
        return ()
    width = min(max_tokens, len(offsets))
    # A token without characters of its own can neither begin nor end an answer.
    empty = torch.tensor([start >= end for start, end in offsets])
    low = -torch.inf
    beyond = torch.full((width - 1,), low)
    last = torch.cat([ends.masked_fill(empty, low), beyond]).unfold(0, width, 1)
    sums = (starts.masked_fill(empty, low)[:, None] + last).flatten()
    scores, chosen = sums.topk(min(MAX_CANDIDATES, len(sums)))
    spans = []
    for score, index in zip(scores.tolist(), chosen.tolist(), strict=True):
        if score > low:
            first, more = divmod(index, width)
            spans.append((score, (offsets[first][0], max(offsets[first][1], offsets[first + more][1]))))
    return tuple(spans)


def merge_candidates(windows: Sequence[SpanCandidates]) -> SpanCandidates:
    """The best candidates of all windows of a context, each once; there is no answer only where no window has one."""
    best: dict[CharSpan, float] = {}
    for window in windows:
        for score, span in window.spans:
            best[span] = max(score, best.get(span, score))
    ranked = sorted(((score, span) for span, score in best.items()), key=lambda scored: (-scored[0], scored[1]))
    return SpanCandidates(tuple(ranked[:MAX_CANDIDATES]), min(window.no_answer for window in windows))
