"""Heads on an AWD-LSTM: the classifier of ULMFiT over whole documents, and a linear one over every token."""

from __future__ import annotations

from typing import cast

import torch
import transformers
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput

from warmstart.models.recurrent.awd_lstm import AwdLstmModel, AwdLstmPreTrainedModel
from warmstart.models.recurrent.config import AwdLstmConfig
from warmstart.models.recurrent.documents import pool_documents


class BatchNorm(nn.BatchNorm1d):
    """Batch norm that uses its running mean and variance for a batch of one row, which has no variance of its own."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        if self.training and len(vectors) > 1:
            return super().forward(vectors)
        return nn.functional.batch_norm(
            vectors, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class LinearBlock(nn.Sequential):
    """Batch norm, dropout and a linear layer (Howard and Ruder 2018, section 3.3)."""

    def __init__(self, size: int, output_size: int, dropout: float) -> None:
        super().__init__(BatchNorm(size), nn.Dropout(dropout), nn.Linear(size, output_size))


class AwdLstmForSequenceClassification(AwdLstmPreTrainedModel):
    """Documents of any length, read in pieces; concat pooling; two blocks with an activation between them."""

    def __init__(self, config: AwdLstmConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.awd_lstm = AwdLstmModel(config)
        size, hidden = 3 * config.embedding_size, config.classifier_hidden_size
        self.hidden = LinearBlock(size, hidden, config.dropout("classifier"))
        self.classifier = LinearBlock(hidden, config.num_labels, config.dropout("classifier_hidden"))
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: object,
    ) -> SequenceClassifierOutput:
        """Logits of shape (documents, labels), and the loss where labels are given."""
        config = self.config
        vectors = pool_documents(self.awd_lstm, input_ids, attention_mask, config.bptt, config.max_gradient_tokens)
        logits = self.classifier(self.hidden(vectors).relu())
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=config)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class AwdLstmForTokenClassification(AwdLstmPreTrainedModel):
    """A linear layer over the state of every token, which has read those on one side of it alone."""

    def __init__(self, config: AwdLstmConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.awd_lstm = AwdLstmModel(config)
        self.dropout = nn.Dropout(config.dropout("classifier_hidden"))
        self.classifier = nn.Linear(config.embedding_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: object,
    ) -> TokenClassifierOutput:
        """Logits of shape (texts, tokens, labels), and the loss where labels are given."""
        states = self.awd_lstm(input_ids, attention_mask).last_hidden_state
        logits = cast(torch.Tensor, self.classifier(self.dropout(states)))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


transformers.AutoModelForSequenceClassification.register(AwdLstmConfig, AwdLstmForSequenceClassification, exist_ok=True)
transformers.AutoModelForTokenClassification.register(AwdLstmConfig, AwdLstmForTokenClassification, exist_ok=True)
