"""Training on a few slices of each long text, drawn anew in every epoch, in place of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warmstart.tasks.shared.text_inputs import count_slices


def draw_slices(features: Sequence[Mapping[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """The features with some of the slices of each text, in their order; a text that has no more keeps all.

    Seed, epoch and row decide which, so that a training that resumes draws the same.

    Args:
        features: Each with its `row` and its `epoch`.
        count: The most slices of a text.
    """
    return [_drawn(feature, count, seed) for feature in features]


def _drawn(feature: Mapping[str, Any], count: int, seed: int) -> dict[str, Any]:
    slices = count_slices(feature)
    if slices is None or slices <= count:
        return dict(feature)
    random = np.random.default_rng([seed % (1 << 63), feature["epoch"], feature["row"]])
    chosen = sorted(random.choice(slices, count, replace=False))
    parts = {name: feature[name] for name in ("input_ids", "token_type_ids") if name in feature}
    return {**feature, **{name: [part[index] for index in chosen] for name, part in parts.items()}}
