"""Our own heads that predict something for each token: its tag, or whether an answer starts or ends there.

Importing this module makes the models known to `AutoModelForTokenClassification` and `AutoModelForQuestionAnswering`;
`pooled`, which it imports, does so for those with one prediction per text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import transformers
from torch.nn import functional as F
from transformers.modeling_outputs import QuestionAnsweringModelOutput, TokenClassifierOutput

from warmstart.models.heads.pooled import PooledConfig, PooledModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PADDING = -1e4
"""The logit of a padded position: never part of an answer, and finite, since logits are subtracted."""


class _TokenModel(PooledModel):
    """Encoder, the chosen layers of each token, dropout, and the layers of `head_type`."""

    feature_type = "states"
    """What of a text does not change while only the head is trained."""

    def __init__(self, config: PooledConfig, encoder: PreTrainedModel | None = None) -> None:
        config.pooling = config.slice_pooling = "mean"  # nothing is pooled, so no pooling may have parameters
        super().__init__(config, encoder)

    def features(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The states of all tokens, to be passed to `forward` any number of times."""
        return self._states(input_ids, attention_mask, token_type_ids)

    def _scores(
        self,
        ids: torch.Tensor | None,
        mask: torch.Tensor | None,
        types: torch.Tensor | None,
        states: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of shape (texts, tokens, labels)."""
        if states is None:
            states = self.features(cast(torch.Tensor, ids), mask, types)
        if self.bilstm is not None:
            states = self.bilstm(states, torch.ones(states.shape[:2], device=states.device) if mask is None else mask)
        return self._logits(states)


class PooledForTokenClassification(_TokenModel):
    """A label for each token.

    Args:
        encoder: A loaded encoder, whose own pooler is removed; None to build one from the config.
    """

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        states: torch.Tensor | None = None,
    ) -> TokenClassifierOutput:
        """Logits of shape (texts, tokens, labels), and the loss where labels are given.

        Args:
            labels: One for each token; -100 for those that are not scored.
            states: The output of `features` for these texts, instead of their tokens; with their `attention_mask`.
        """
        logits = self._scores(input_ids, attention_mask, token_type_ids, states)
        loss = None if labels is None else F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


class PooledForQuestionAnswering(_TokenModel):
    """Two scores for each token: whether the answer starts there, and whether it ends there.

    Args:
        encoder: A loaded encoder, whose own pooler is removed; None to build one from the config.
    """

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        states: torch.Tensor | None = None,
    ) -> QuestionAnsweringModelOutput:
        """Two logits per token, and the loss, the mean of both, where the positions of the answers are given.

        Args:
            states: The output of `features` for these texts, instead of their tokens; with their `attention_mask`.
        """
        scores = self._scores(input_ids, attention_mask, token_type_ids, states)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[..., None] == 0, PADDING)
        starts, ends = scores.unbind(dim=-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (
                F.cross_entropy(starts.float(), start_positions) / 2 + F.cross_entropy(ends.float(), end_positions) / 2
            )
        return QuestionAnsweringModelOutput(loss=loss, start_logits=starts, end_logits=ends)


transformers.AutoModelForTokenClassification.register(PooledConfig, PooledForTokenClassification, exist_ok=True)
transformers.AutoModelForQuestionAnswering.register(PooledConfig, PooledForQuestionAnswering, exist_ok=True)
