"""Texts with some of their tokens masked, the same ones every time: an exam that is set once for many encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from warmstart.tasks.shared.text_inputs import encode_texts, pad
from warmstart.text.windows import Cut, Window

SHARE = 0.15
"""Share of a text's tokens that are masked, as for BERT; each by the mask token, none kept or swapped."""
BATCH = 32
"""Texts at once."""


@dataclass(frozen=True)
class Batch:
    """Some texts, padded, and which of their tokens are masked."""

    inputs: dict[str, torch.Tensor]
    """The texts as they are."""
    masked: torch.Tensor
    """Where a token is masked; nowhere if the tokenizer has no mask token."""
    hidden: dict[str, torch.Tensor]
    """The texts with those tokens masked."""
    answers: torch.Tensor
    """The tokens that were there, in order."""


@dataclass(frozen=True)
class Exam:
    """Batches of texts of like length, and how much of the texts they show."""

    batches: list[Batch]
    cut: Cut = field(default_factory=Cut)

    @property
    def asked(self) -> int:
        """How many tokens are masked."""
        return sum(len(batch.answers) for batch in self.batches)

    def about(self) -> dict[str, Any]:
        """Its size in plain values."""
        return {"masked": self.asked, **asdict(self.cut)}


def set_exam(texts: Sequence[str], tokenizer: Any, tokens: int) -> Exam:
    """Mask tokens of each text: which ones is a function of its number and its tokens alone.

    Args:
        tokens: The most tokens that are seen of a text, special ones included; the rest is cut and counted.
    """
    cut = Cut()
    features = encode_texts({"text": texts}, tokenizer, Window(tokens), False)
    for feature in features:
        cut.add(feature)
    order = sorted(range(len(features)), key=lambda number: len(features[number]["input_ids"]))
    chunks = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    return Exam([_batch([features[number] for number in chunk], chunk, tokenizer) for chunk in chunks], cut)


def _batch(features: list[dict[str, Any]], numbers: list[int], tokenizer: Any) -> Batch:
    inputs = pad(features, tokenizer)
    ids, real = inputs["input_ids"], inputs["attention_mask"].bool()
    free = real & ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    masked = torch.zeros_like(free)
    if tokenizer.mask_token_id is None:
        return Batch(inputs, masked, inputs, ids[masked])
    for row, number in enumerate(numbers):
        places = free[row].nonzero().flatten()
        if len(places):
            count = max(1, round(SHARE * len(places)))
            masked[row, places[np.random.default_rng(number).permutation(len(places))[:count]]] = True
    hidden = {**inputs, "input_ids": ids.masked_fill(masked, tokenizer.mask_token_id)}
    return Batch(inputs, masked, hidden, ids[masked])
