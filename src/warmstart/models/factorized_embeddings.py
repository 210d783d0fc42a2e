"""Embeddings factorized into smaller ones and a projection: the truncated singular value decomposition of their matrix.

The embeddings of tokens, positions and types are one matrix, whose rows are approximated by their projections on the
directions of its largest singular values. With as many directions as the matrix has ranks, nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn
from transformers import PreTrainedModel

from warmstart.errors import ModelError
from warmstart.models.architectures import ARCHITECTURES, EmbeddingProjection, encoder_config, spec_of


def check_embedding_size(model: nn.Module, size: int) -> None:
    """Refuse an architecture whose config has no smaller embeddings, and a size that is not smaller."""
    own = _Embeddings.of(model).size
    if not 0 < size < own:
        raise ModelError(f"found {size}; the embeddings have {own} numbers each, expected 1 to {own - 1}")


def main_directions(model: nn.Module, size: int, tokens: Sequence[int] | None = None) -> torch.Tensor:
    """The directions in which embeddings differ most from zero, as hidden states, in the columns of a matrix.

    Args:
        tokens: The tokens whose embeddings count; None for all.
    """
    check_embedding_size(model, size)
    embeddings = _Embeddings.of(model)
    every = embeddings.every.values()
    matrix = torch.cat([_rows(module, tokens if module is embeddings.tokens else None) for module in every])
    hidden = matrix if embeddings.projection is None else matrix @ embeddings.projection.weight.detach().double().T
    # Eigenvectors of the small product are the right singular vectors of the tall matrix.
    vectors: torch.Tensor = torch.linalg.eigh(hidden.T @ hidden).eigenvectors
    return vectors.flip(1)[:, :size].contiguous()


def factorize_embeddings(model: nn.Module, directions: torch.Tensor) -> None:
    """Replace the embeddings by their parts in these directions, and a projection back, in place."""
    embeddings = _Embeddings.of(model)
    old, width = embeddings.projection, directions.shape[1]
    inward = directions if old is None else old.weight.detach().double().T @ directions
    for name, module in embeddings.every.items():
        smaller = nn.Embedding(module.num_embeddings, width, module.padding_idx)
        smaller.weight = nn.Parameter((module.weight.detach().double() @ inward).to(module.weight.dtype))
        setattr(embeddings.parent, name, smaller)
    projection = nn.Linear(width, directions.shape[0], bias=False)
    projection.weight = nn.Parameter(directions.to(next(model.parameters()).dtype))
    setattr(embeddings.parent, embeddings.spec.projection, projection)
    for part in model.modules():
        if hasattr(part, "config"):
            encoder_config(part.config).embedding_size = width


class ApproximatedEmbeddings:
    """A model whose embeddings are projected on some directions while the context lasts.

    Args:
        directions: What `main_directions` gives; None to change nothing.
    """

    def __init__(self, model: nn.Module, directions: torch.Tensor | None) -> None:
        self.model, self.directions = model, directions

    def __enter__(self) -> Self:
        if self.directions is not None:
            embeddings, onto = _Embeddings.of(self.model), self.directions @ self.directions.T
            reader = embeddings.parent.get_submodule(embeddings.spec.reader)
            self.handle = reader.register_forward_pre_hook(lambda _, inputs: (inputs[0] @ onto.to(inputs[0]),))
        return self

    def __exit__(self, *_: object) -> None:
        if self.directions is not None:
            self.handle.remove()


class _Embeddings:
    """The embeddings of a model: the module that holds them and their projection."""

    def __init__(self, parent: nn.Module, tokens: nn.Module, spec: EmbeddingProjection) -> None:
        self.parent, self.tokens, self.spec = parent, tokens, spec
        self.every = {name: part for name, part in parent.named_children() if isinstance(part, nn.Embedding)}
        self.projection: nn.Linear | None = getattr(parent, spec.projection)

    @property
    def size(self) -> int:
        return next(iter(self.every.values())).embedding_dim

    @classmethod
    def of(cls, model: nn.Module) -> _Embeddings:
        if not isinstance(model, PreTrainedModel):
            raise ModelError(f"{type(model).__name__} is no model of transformers, so its embeddings stay as they are")
        config: Any = encoder_config(model.config)
        if (spec := spec_of(config).embedding_projection) is None:
            able = sorted(name for name, one in ARCHITECTURES.items() if one.embedding_projection)
            raise ModelError(
                f"the embeddings of {config.model_type} cannot be factorized: its config has no smaller ones, or "
                f"normalizes them before they are projected; those of {' and '.join(able)} can"
            )
        if model.get_output_embeddings() is not None:
            raise ModelError("the embeddings are those of its language modelling head too, which would change")
        tokens = model.get_input_embeddings()
        parent = next(part for part in model.modules() if tokens in part.children())
        return cls(parent, tokens, spec)


def _rows(module: nn.Embedding, numbers: Sequence[int] | None) -> torch.Tensor:
    weight = module.weight.detach().double()
    return weight if numbers is None else weight[torch.tensor(numbers)]
