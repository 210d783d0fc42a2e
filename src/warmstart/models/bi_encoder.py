"""A bi-encoder: an encoder that gives each text a vector of length 1; the similarity of two texts is their dot product.
For Euclidean distances, vectors keep their length.

Queries and documents are encoded independently ("Sentence-BERT", Reimers and Gurevych 2019), so the vectors of millions
of documents can be stored, and a query is compared with all of them by one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F
from transformers.utils import ModelOutput

from warmstart.models.heads.pooled import build_encoder
from warmstart.models.hidden_states import build_pooling, in_chunks

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


@dataclass
class BiEncoderOutput(ModelOutput):  # type: ignore[misc]
    """Vectors of queries and of documents, and the similarity of each document to its own query."""

    logits: torch.Tensor | None = None
    queries: torch.Tensor | None = None
    documents: torch.Tensor | None = None


class BiEncoder(nn.Module):
    """An encoder, and pooling over its last layer's tokens.

    Args:
        pooling: The pooling of tokens: `mean`, `cls` (the first one), `max` or `last`.
        chunk_size: The most texts whose activations are in memory at a time; None for a whole batch. A larger batch is
            run in chunks, which are run again for their gradients, so a batch can be as large as its vectors fit
            ("Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", Gao et al. 2021). The gradients
            are those of the whole batch.
        normalize: Whether vectors are scaled to length 1; without, they are compared by distance.
    """

    def __init__(
        self, encoder: PreTrainedModel, pooling: str = "mean", chunk_size: int | None = None, *, normalize: bool = True
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = encoder.config
        self.pooling = build_pooling(self.config, "last", pooling)
        self.chunk_size = chunk_size
        self.normalize = normalize

    @classmethod
    def _from_config(cls, config: PretrainedConfig) -> BiEncoder:
        """A new one of a config, as transformers models have it: `reinitialize` copies parts of it."""
        return cls(build_encoder(config))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        texts: torch.Tensor | None = None,
    ) -> BiEncoderOutput:
        """Compare queries with documents.

        Args:
            texts: How many rows of the batch, one after the other, are a query and its documents; None where every
                row is a text by itself, whose vectors are then given as `documents`.
        """
        inputs = [tensor for tensor in (input_ids, attention_mask, token_type_ids) if tensor is not None]
        if texts is None:
            return BiEncoderOutput(documents=self.vectors(*inputs))
        return BiEncoderOutput(**compare_texts(self.vectors, inputs, texts))

    @property
    def output_size(self) -> int:
        """Size of a text's vector."""
        return self.pooling.output_size

    def vectors(self, *inputs: torch.Tensor) -> torch.Tensor:
        """One vector a row of token ids, attention mask and, where the encoder has them, token types."""
        return in_chunks(self._vectors, inputs, self.chunk_size)

    def _vectors(self, *inputs: torch.Tensor) -> torch.Tensor:
        used = inputs[1].bool().any(dim=0)  # on whichever side the padding is
        ids, mask, *types = (tensor[:, used] for tensor in inputs)
        token_types = {"token_type_ids": types[0]} if types else {}
        outputs = self.encoder(input_ids=ids, attention_mask=mask, return_dict=True, **token_types)
        pooled = self.pooling((outputs.last_hidden_state,), mask)
        # In fp32: small differences between products matter.
        return F.normalize(pooled.float(), dim=-1) if self.normalize else pooled.float()


def compare_texts(
    vectors: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], texts: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Vectors of queries and of documents, and the similarity of each document to its own query.

    Args:
        vectors: Gives one vector a row of `inputs`, on any engine.
        texts: As for `BiEncoder`.
    """
    is_query = torch.zeros(len(inputs[0]), dtype=torch.bool, device=inputs[0].device)
    is_query[texts.cumsum(0) - texts] = True
    # Separately, so that short queries are not padded to the length of documents.
    queries = vectors(*(tensor[is_query] for tensor in inputs))
    documents = vectors(*(tensor[~is_query] for tensor in inputs))
    own = queries.repeat_interleave(texts - 1, dim=0)
    return {"logits": (own * documents).sum(dim=-1), "queries": queries, "documents": documents}
