"""Tokens that a task adds to the tokenizer, each with a new embedding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from transformers import AddedToken

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def add_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Iterable[str]) -> None:
    """Add tokens to a tokenizer, in place; white space before one of them is dropped."""
    new = [AddedToken(token, lstrip=True, normalized=False, special=True) for token in tokens]
    tokenizer.add_tokens(new, special_tokens=True)


def resize_embeddings(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Add an embedding for each token that was added to the tokenizer, in place, if the encoder has none to spare."""
    encoder = model.base_model
    if len(tokenizer) > encoder.get_input_embeddings().num_embeddings:
        # Initialized as in a new encoder, not all near the mean of the others: the model must distinguish them.
        encoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
