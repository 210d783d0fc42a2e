"""The AWD-LSTM without a head: states of tokens, each of which knows all tokens that were read before it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import transformers
from torch import nn
from transformers import initialization
from transformers.utils import ModelOutput

from warmstart.models.padding import put_back, reading_order
from warmstart.models.recurrent.config import AwdLstmConfig
from warmstart.models.recurrent.dropouts import EmbeddingDropout, State, VariationalDropout, WeightDropLSTM

EMBEDDING_RANGE = 0.1
"""New embeddings are uniform between minus this and this, as in the paper."""


@dataclass
class AwdLstmOutput(ModelOutput):  # type: ignore[misc]
    """States of tokens, and the state to continue from."""

    last_hidden_state: torch.Tensor
    state: tuple[State, ...] | None = None
    """Of each layer, that after the last column of the batch; of a row with padding there, it is of no use."""
    hidden_states: tuple[torch.Tensor, ...] | None = None
    """The output of the embeddings and of each layer."""


class AwdLstmPreTrainedModel(transformers.PreTrainedModel):  # type: ignore[misc]
    """What all models with an AWD-LSTM share: how new weights are drawn."""

    config_class = AwdLstmConfig
    base_model_prefix = "awd_lstm"

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Embedding):
            initialization.uniform_(module.weight, -EMBEDDING_RANGE, EMBEDDING_RANGE)
        elif isinstance(module, nn.LSTM):
            bound = module.hidden_size**-0.5
            for parameter in module.parameters():
                initialization.uniform_(parameter, -bound, bound)


class AwdLstmModel(AwdLstmPreTrainedModel):
    """Embeddings and recurrent layers."""

    def __init__(self, config: AwdLstmConfig) -> None:
        super().__init__(config)
        self.embeddings = EmbeddingDropout(
            config.vocab_size, config.embedding_size, config.pad_token_id, config.dropout("embedding")
        )
        self.input_dropout = VariationalDropout(config.dropout("input"))
        inner = [config.hidden_size] * (config.num_hidden_layers - 1)
        sizes = [config.embedding_size, *inner, config.embedding_size]
        self.layers = nn.ModuleList(
            WeightDropLSTM(below, size, config.dropout("weight")) for below, size in itertools.pairwise(sizes)
        )
        self.hidden_dropout = VariationalDropout(config.dropout("hidden"))
        self.post_init()

    def get_input_embeddings(self) -> EmbeddingDropout:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        # The library makes plain ones of another size, for added tokens; words are dropped in those as well.
        words, size = value.weight.shape
        self.embeddings = EmbeddingDropout(words, size, value.padding_idx, self.config.dropout("embedding"))
        self.embeddings.weight = value.weight

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        state: Sequence[State] | None = None,
        output_hidden_states: bool = False,
        in_reading_order: bool = False,
        **kwargs: object,
    ) -> AwdLstmOutput:
        """The states of all tokens, in the order of the text, whichever way it is read.

        Args:
            attention_mask: 1 for a token, 0 for padding, on whichever side it is: padding is read after all tokens.
            state: That after the tokens read before these; None at the beginning of a text.
            in_reading_order: The tokens come in the order in which they are read, padding last, and so do the states.
        """
        backward = self.config.direction == "backward"
        order = None if in_reading_order else reading_order(input_ids, attention_mask, backward)
        states = self.input_dropout(self.embeddings(input_ids if order is None else input_ids.gather(1, order)))
        every, after = [states], []
        for number, layer in enumerate(self.layers):
            if number:
                states = self.hidden_dropout(states)
            states, new = layer(states, None if state is None else state[number])
            every.append(states)
            after.append(new)
        wanted = every if output_hidden_states else every[-1:]
        if order is not None:
            wanted = [put_back(read, order) for read in wanted]
        return AwdLstmOutput(wanted[-1], tuple(after), tuple(wanted) if output_hidden_states else None)


transformers.AutoModel.register(AwdLstmConfig, AwdLstmModel, exist_ok=True)
