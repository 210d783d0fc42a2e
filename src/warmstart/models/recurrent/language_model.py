"""The AWD-LSTM as a language model: logits of the next token, or of the one before where it reads backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers.utils import ModelOutput

from warmstart.models.padding import reading_order
from warmstart.models.pooling import is_tracing
from warmstart.models.recurrent.awd_lstm import AwdLstmModel, AwdLstmPreTrainedModel
from warmstart.models.recurrent.config import AwdLstmConfig
from warmstart.models.recurrent.dropouts import State, VariationalDropout

IGNORED = -100
"""The target of a token where nothing is to be predicted."""


@dataclass
class AwdLstmLMOutput(ModelOutput):  # type: ignore[misc]
    """Logits of the vocabulary, and the state to continue from; or how well given targets were predicted."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    state: tuple[State, ...] | None = None
    regularization: torch.Tensor | None = None
    """AR and TAR, to be added to the loss; in training alone."""
    target_losses: torch.Tensor | None = None
    """The cross-entropy of each target, 0 where there is none."""
    target_ranks: torch.Tensor | None = None
    """How many tokens were more likely than each target, 0 where there is none."""


class AwdLstmForCausalLM(AwdLstmPreTrainedModel):
    """Encoder, output dropout, and a decoder whose weights are those of the embeddings unless they are untied."""

    _tied_weights_keys = {"decoder.weight": "awd_lstm.embeddings.weight"}

    def __init__(self, config: AwdLstmConfig) -> None:
        super().__init__(config)
        self.awd_lstm = AwdLstmModel(config)
        self.output_dropout = VariationalDropout(config.dropout("output"))
        self.decoder = nn.Linear(config.embedding_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.decoder = value

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        state: Sequence[State] | None = None,
        targets: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: object,
    ) -> AwdLstmLMOutput:
        """Logits at every token.

        Args:
            state: That after the tokens read before these; None at the beginning of a text.
            targets: The token to predict at each place, or `IGNORED`. The text is then read in pieces, and how well
                each was predicted takes the place of the logits: memory does not grow with the text.
            labels: The text's own tokens, as other models of transformers take them: the loss is that of predicting
                each from those read before it.
        """
        if targets is not None:
            return self._score(input_ids, attention_mask, targets)
        outputs = self.awd_lstm(input_ids, attention_mask, state)
        raw = outputs.last_hidden_state
        dropped = self.output_dropout(raw)
        logits = self.decoder(dropped)
        loss = None
        if labels is not None:
            ahead = (logits[:, 1:], labels[:, :-1]) if self._backward else (logits[:, :-1], labels[:, 1:])
            loss = F.cross_entropy(ahead[0].flatten(0, 1), ahead[1].flatten(), ignore_index=IGNORED)
        regularization = self._regularization(raw, dropped, attention_mask) if self.training else None
        return AwdLstmLMOutput(loss, logits, outputs.state, regularization)

    @property
    def _backward(self) -> bool:
        return bool(self.config.direction == "backward")

    def _regularization(
        self, raw: torch.Tensor, dropped: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor | None:
        """AR over the outputs after dropout, and TAR over those before it (Merity et al. 2018, section 4.6)."""
        alpha, beta = self.config.activation_regularization, self.config.temporal_regularization
        if not alpha and not beta:
            return None
        weights = raw.new_ones(raw.shape[:2]) if mask is None else mask.to(raw.dtype)
        activation = _masked_mean(dropped, weights)
        temporal = _masked_mean(raw[:, 1:] - raw[:, :-1], weights[:, 1:] * weights[:, :-1])
        return cast(torch.Tensor, alpha * activation + beta * temporal)

    def _score(self, ids: torch.Tensor, mask: torch.Tensor | None, targets: torch.Tensor) -> AwdLstmLMOutput:
        """How well targets are predicted, with the logits of one piece in memory at a time."""
        order = reading_order(ids, mask, self._backward)
        if order is not None:
            ids, targets = ids.gather(1, order), targets.gather(1, order)
        pieces: list[tuple[torch.Tensor, torch.Tensor]] = []
        state: Sequence[State] | None = None
        length = ids.shape[1] if is_tracing() else self.config.bptt  # a trace has a fixed number of pieces: one
        for tokens, wanted in zip(torch.split(ids, length, 1), torch.split(targets, length, 1), strict=True):
            outputs = self.awd_lstm(tokens, state=state, in_reading_order=True)
            state = outputs.state
            logits = self.decoder(outputs.last_hidden_state).float()
            own = logits.gather(2, wanted.clamp(min=0).unsqueeze(2))
            known = wanted != IGNORED
            losses = (logits.logsumexp(2) - own.squeeze(2)) * known
            pieces.append((losses, (logits > own).sum(2) * known))
        losses, ranks = (torch.cat(parts, dim=1) for parts in zip(*pieces, strict=True))
        if order is not None:
            losses, ranks = (torch.zeros_like(part).scatter(1, order, part) for part in (losses, ranks))
        return AwdLstmLMOutput(target_losses=losses, target_ranks=ranks)


def _masked_mean(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The mean of the squares of all states that are not padding."""
    squares = states.float().pow(2).mean(2)
    return (squares * weights).sum() / weights.sum().clamp(min=1)


transformers.AutoModelForCausalLM.register(AwdLstmConfig, AwdLstmForCausalLM, exist_ok=True)
