"""A bi-encoder: an encoder that gives each text a vector of length 1, so that two texts are as close as their product.

Queries and documents are encoded apart ("Sentence-BERT", Reimers and Gurevych 2019), so the vectors of millions of
documents can be kept, and a query is compared with all of them by one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.utils import ModelOutput

from warmstart.models.heads.pooled import open_encoder
from warmstart.models.hidden_states import in_chunks, pooling_of


@dataclass
class Compared(ModelOutput):  # type: ignore[misc]
    """Vectors of queries and of documents, and how close each document is to its own query."""

    logits: torch.Tensor | None = None
    queries: torch.Tensor | None = None
    documents: torch.Tensor | None = None


class BiEncoder(nn.Module):
    """An encoder, pooling over its last layer's tokens, and vectors scaled to length 1.

    Args:
        tokens: Which tokens a vector is made of: `mean` of all, `cls` (the first one), `max` or `last`.
        at_once: The most texts whose activations are held at a time; None for all of a batch. A batch of more is run
            in chunks that are run again when their gradients are wanted, so a batch can be as large as its vectors
            fit ("Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", Gao et al. 2021). The
            gradients are those of the whole batch.
    """

    def __init__(self, encoder: Any, tokens: str = "mean", at_once: int | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = encoder.config
        self.pooling = pooling_of(self.config, "last", tokens)
        self.at_once = at_once

    @classmethod
    def _from_config(cls, config: Any) -> BiEncoder:
        """A new one of a config, as a transformers model has it: parts of it are taken where layers are renewed."""
        return cls(open_encoder(config))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        texts: torch.Tensor | None = None,
    ) -> Compared:
        """Compare queries with documents.

        Args:
            texts: How many rows of the batch, one after the other, are a query and its documents; None where every
                row is a text by itself, whose vectors are then given as `documents`.
        """
        inputs = [one for one in (input_ids, attention_mask, token_type_ids) if one is not None]
        if texts is None:
            return Compared(documents=self.vectors(*inputs))
        return Compared(**compared(self.vectors, inputs, texts))

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return self.pooling.width

    def vectors(self, *inputs: torch.Tensor) -> torch.Tensor:
        """One vector a row of token ids, attention mask and, where the encoder has any, segments."""
        return in_chunks(self._vectors, inputs, self.at_once)

    def _vectors(self, *inputs: torch.Tensor) -> torch.Tensor:
        used = inputs[1].bool().any(dim=0)  # on whichever side the padding is
        ids, mask, *types = (one[:, used] for one in inputs)
        segments = {"token_type_ids": types[0]} if types else {}
        outputs = self.encoder(input_ids=ids, attention_mask=mask, return_dict=True, **segments)
        pooled = self.pooling((outputs.last_hidden_state,), mask)
        # In 32 bits: products of vectors are compared closely.
        return F.normalize(pooled.float(), dim=-1)


def compared(
    vectors: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], texts: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Vectors of queries and of documents, and how close each document is to its own query.

    Args:
        vectors: Gives one vector a row of `inputs`, whatever computes it.
        texts: As for `BiEncoder`.
    """
    is_query = torch.zeros(len(inputs[0]), dtype=torch.bool, device=inputs[0].device)
    is_query[texts.cumsum(0) - texts] = True
    # Apart, so that short queries are not padded to the length of documents.
    queries = vectors(*(one[is_query] for one in inputs))
    documents = vectors(*(one[~is_query] for one in inputs))
    own = queries.repeat_interleave(texts - 1, dim=0)
    return {"logits": (own * documents).sum(dim=-1), "queries": queries, "documents": documents}
