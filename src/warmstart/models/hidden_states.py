"""Running an encoder alone: the hidden states of its layers, and the pooling that fits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from warmstart.models.architectures import spec_of
from warmstart.models.padding import put_back, reading_order
from warmstart.models.pooling import Pooling, is_tracing

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


def hidden_states(
    encoder: PreTrainedModel, inputs: Mapping[str, torch.Tensor], all_layers: bool
) -> Sequence[torch.Tensor]:
    """The outputs of the embeddings and of each block, or of the last block alone.

    Args:
        inputs: `input_ids`, `attention_mask`, and `token_type_ids` where the tokenizer gives them.
        all_layers: Whether layers below the last are wanted.
    """
    arguments = dict(inputs)
    if spec_of(encoder.config).global_first_token:
        mask = arguments["attention_mask"]
        first = mask.int().argmax(dim=1, keepdim=True)
        arguments["global_attention_mask"] = torch.zeros_like(mask).scatter(1, first, 1)
    order = None
    if spec_of(encoder.config).reads_padding:
        order = reading_order(arguments["input_ids"], arguments["attention_mask"])
    if order is not None:
        arguments = {name: tensor.gather(1, order) for name, tensor in arguments.items()}
    stateless = {"use_cache": False} if spec_of(encoder.config).writes_state else {}
    outputs = encoder(**arguments, **stateless, output_hidden_states=all_layers, return_dict=True)
    states: Sequence[torch.Tensor] = outputs.hidden_states if all_layers else (outputs.last_hidden_state,)
    return states if order is None else [put_back(layer, order) for layer in states]


def encoder_of(model: nn.Module) -> PreTrainedModel:
    """The encoder under a model's head, whether the model is one of transformers or our own."""
    encoder = getattr(model, "base_model", None)
    return model.encoder if encoder is None else encoder


def in_chunks(
    vectors: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor | None], size: int | None
) -> torch.Tensor:
    """The vectors of all rows of the inputs, with the activations of one chunk of rows in memory at a time.

    In training a chunk is run once more for its gradients, with the same dropout: only its vectors are kept (gradient
    checkpointing).

    Args:
        vectors: Gives the vectors of some rows.
        size: Rows of a chunk; None for all rows in one.
    """
    rows = len(inputs[0])  # type: ignore[arg-type]
    if size is None or rows <= size or is_tracing():  # a trace has a fixed number of chunks: one
        return vectors(*inputs)
    chunks: list[torch.Tensor] = []
    for start in range(0, rows, size):
        chunk = [tensor if tensor is None else tensor[start : start + size] for tensor in inputs]
        if torch.is_grad_enabled():
            chunks.append(checkpoint(vectors, *chunk, use_reentrant=False, preserve_rng_state=True))
        else:
            chunks.append(vectors(*chunk))
    return torch.cat(chunks)


def build_pooling(config: PretrainedConfig, layers: str | int, pooling: str, state_size: int | None = None) -> Pooling:
    """The pooling for an encoder of this config; the other arguments as in `Pooling`."""
    spec = spec_of(config)
    last, first = (getattr(config, name) if name else None for name in (spec.last_hidden_size, spec.first_hidden_size))
    return Pooling(layers, pooling, config.hidden_size, config.num_hidden_layers, last, state_size, first)
