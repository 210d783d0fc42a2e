"""Running an encoder alone: the hidden states of its layers, and the pooling that fits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from warmstart.models.architectures import row_of
from warmstart.models.pooling import Pooling, tracing


def hidden_states(encoder: Any, inputs: Mapping[str, torch.Tensor], every: bool) -> Sequence[torch.Tensor]:
    """What the embeddings and each block put out, or the last block alone.

    Args:
        inputs: `input_ids`, `attention_mask`, and `token_type_ids` where the tokenizer gives them.
        every: Whether layers below the last are wanted.
    """
    given = dict(inputs)
    if row_of(encoder.config).global_first:
        mask = given["attention_mask"]
        first = mask.int().argmax(dim=1, keepdim=True)
        given["global_attention_mask"] = torch.zeros_like(mask).scatter(1, first, 1)
    outputs = encoder(**given, output_hidden_states=every, return_dict=True)
    found: Sequence[torch.Tensor] = outputs.hidden_states if every else (outputs.last_hidden_state,)
    return found


def encoder_in(model: Any) -> Any:
    """The encoder under a model's head, be it of transformers or of our own."""
    inside = getattr(model, "base_model", None)
    return model.encoder if inside is None else inside


def in_chunks(
    vectors: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor | None], size: int | None
) -> torch.Tensor:
    """What `vectors` gives for all rows of the inputs, holding the activations of one chunk of them at a time.

    In training a chunk is run once more when its gradients are wanted, with the same dropout: all that is kept of it is
    its vectors.

    Args:
        size: Rows of a chunk; None for all at once.
    """
    rows = len(inputs[0])  # type: ignore[arg-type]
    if size is None or rows <= size or tracing():  # a trace has a fixed number of chunks: one
        return vectors(*inputs)
    found: list[Any] = []
    for start in range(0, rows, size):
        chunk = [one if one is None else one[start : start + size] for one in inputs]
        if torch.is_grad_enabled():
            found.append(checkpoint(vectors, *chunk, use_reentrant=False, preserve_rng_state=True))
        else:
            found.append(vectors(*chunk))
    return torch.cat(found)


def pooling_of(config: Any, layers: str | int, tokens: str) -> Pooling:
    """The pooling for an encoder of this config; `layers` and `tokens` as in `Pooling`."""
    row = row_of(config)
    last_width = getattr(config, row.last_width) if row.last_width else None
    return Pooling(layers, tokens, config.hidden_size, config.num_hidden_layers, last_width)
