"""Which features share a batch: those of like length, as many as a budget of tokens allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmstart.tasks.base import AnyFeature
from warmstart.tasks.shared.text_inputs import count_slices

ROWS, TOKENS = 64, 8192
"""The most rows of tokens, and of tokens with their padding, that are computed at once."""


def group_by_length(features: Sequence[AnyFeature], most: int = ROWS, budget: int = TOKENS) -> Iterator[list[int]]:
    """The indices of features that share a batch, shortest first: like lengths waste the least padding.

    Args:
        most: Rows of tokens in a batch; a text of more slices than that comes alone.
        budget: Tokens in a batch, padding included; a text of more comes alone.
    """
    counts = [count_slices(feature) for feature in features]
    lengths = [
        len(feature["input_ids"]) if slices is None else max(map(len, feature["input_ids"]))
        for feature, slices in zip(features, counts, strict=True)
    ]
    chosen: list[int] = []
    count = 0
    for index in sorted(range(len(features)), key=lengths.__getitem__):
        own = counts[index] or 1
        # Sorted, so this feature is the longest of its batch: all are padded to its length.
        if chosen and (count + own > most or (count + own) * lengths[index] > budget):
            yield chosen
            chosen, count = [], 0
        chosen.append(index)
        count += own
    if chosen:
        yield chosen


def count_tokens(feature: AnyFeature) -> int:
    """The tokens of a feature, over all its slices."""
    ids = feature["input_ids"]
    return len(ids) if count_slices(feature) is None else sum(map(len, ids))
