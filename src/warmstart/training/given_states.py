"""What frozen blocks give for each row, stored with the rows: training steps read it in place of computing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from warmstart.models.lower_blocks import LowerBlocks
from warmstart.storage.json_files import JsonObject
from warmstart.tasks.base import Batch

STATES = "given_states"
"""The column, and the name in a batch: the states of a row's tokens, one after the other."""


def take_states(features: Sequence[JsonObject]) -> tuple[list[JsonObject], list[Any]]:
    """Features without their stored states, and these; none where they have none."""
    if STATES not in features[0]:
        return list(features), []
    plain = [{name: value for name, value in feature.items() if name != STATES} for feature in features]
    return plain, [feature[STATES] for feature in features]


def pad_states(states: Sequence[Any], batch: Mapping[str, torch.Tensor]) -> Batch:
    """The stored states of the rows of a batch, each at the place of its token."""
    if not len(states):
        return {}
    real = batch["attention_mask"].bool()
    flat = torch.from_numpy(np.concatenate(states)).view(int(real.sum()), -1)
    padded = flat.new_zeros(*real.shape, flat.shape[1])
    padded[real] = flat
    return {STATES: padded}


@contextmanager
def given_states(blocks: LowerBlocks | None, inputs: Batch) -> Iterator[None]:
    """Takes the states out of a batch; within it, the frozen blocks return them, where there are any."""
    states = inputs.pop(STATES, None)
    if blocks is None or states is None:
        yield
        return
    with blocks.replaced(states):
        yield
