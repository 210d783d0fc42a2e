"""Tokens of a task's own: put into the tokenizer, each with an embedding that is yet to be learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transformers import AddedToken


def add_tokens(tokenizer: Any, tokens: Iterable[str]) -> None:
    """Let a tokenizer know these tokens, in place; white space before one of them is dropped."""
    new = [AddedToken(token, lstrip=True, normalized=False, special=True) for token in tokens]
    tokenizer.add_tokens(new, special_tokens=True)


def widen(model: Any, tokenizer: Any) -> None:
    """Give tokens that were added to the tokenizer an embedding each, in place, where the encoder has none to spare."""
    encoder = model.base_model
    if len(tokenizer) > encoder.get_input_embeddings().num_embeddings:
        # Drawn as those of a new encoder, not all near the mean of the known ones: they must be told apart.
        encoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
