"""Texts with some of their tokens masked, the same ones every time, to compare many encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from warmstart.tasks.base import TextFeature
from warmstart.tasks.shared.text_inputs import encode_texts, pad
from warmstart.text.windows import Truncation, Window

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHARE = 0.15
"""Share of a text's tokens that are masked, as for BERT; each by the mask token, none kept or replaced at random."""
BATCH_SIZE = 32


@dataclass(frozen=True)
class MaskedBatch:
    """Some texts, padded, and which of their tokens are masked."""

    inputs: dict[str, torch.Tensor]
    """The texts without masks."""
    masked: torch.Tensor
    """Where a token is masked; nowhere if the tokenizer has no mask token."""
    masked_inputs: dict[str, torch.Tensor]
    """The texts with those tokens masked."""
    targets: torch.Tensor
    """The tokens that were masked, in order."""


@dataclass(frozen=True)
class MaskedTexts:
    """Batches of texts of similar length, and how much of the texts was truncated."""

    batches: list[MaskedBatch]
    truncation: Truncation = field(default_factory=Truncation)

    @property
    def num_masked(self) -> int:
        """How many tokens are masked."""
        return sum(len(batch.targets) for batch in self.batches)

    def counts(self) -> dict[str, int]:
        """How many tokens are masked, and how many texts and tokens there are and were truncated."""
        return {"masked": self.num_masked, **asdict(self.truncation)}


def mask_texts(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> MaskedTexts:
    """Mask tokens of each text: the choice depends only on the number of the text and its tokens.

    Args:
        max_tokens: The maximum number of tokens in a text, including special tokens; the rest is truncated and counted.
    """
    truncation = Truncation()
    features = encode_texts({"text": texts}, tokenizer, Window(max_tokens), False)
    for feature in features:
        truncation.add(feature)
    order = sorted(range(len(features)), key=lambda number: len(features[number]["input_ids"]))
    chunks = [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]
    batches = [_batch([features[number] for number in chunk], chunk, tokenizer) for chunk in chunks]
    return MaskedTexts(batches, truncation)


def _batch(features: list[TextFeature], numbers: list[int], tokenizer: PreTrainedTokenizerBase) -> MaskedBatch:
    inputs = pad(features, tokenizer)
    ids, real = inputs["input_ids"], inputs["attention_mask"].bool()
    free = real & ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    masked = torch.zeros_like(free)
    if tokenizer.mask_token_id is None:
        return MaskedBatch(inputs, masked, inputs, ids[masked])
    for row, number in enumerate(numbers):
        positions = free[row].nonzero().flatten()
        if len(positions):
            count = max(1, round(SHARE * len(positions)))
            masked[row, positions[np.random.default_rng(number).permutation(len(positions))[:count]]] = True
    masked_inputs = {**inputs, "input_ids": ids.masked_fill(masked, tokenizer.mask_token_id)}
    return MaskedBatch(inputs, masked, masked_inputs, ids[masked])
