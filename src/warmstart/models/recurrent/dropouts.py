"""The dropouts of an AWD-LSTM, each of which draws one mask for a whole sequence (Merity et al. 2018, section 4)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

State = tuple[torch.Tensor, torch.Tensor]
"""The hidden state and the cell of one layer after the tokens it has read, each of shape (1, texts, size)."""


class VariationalDropout(nn.Module):
    """Zeroes the same features of a text at all of its tokens (Gal and Ghahramani 2016)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        if not self.training or not self.p:
            return states
        mask = F.dropout(states.new_ones(states.shape[0], 1, states.shape[2]), self.p)
        return states * mask


class EmbeddingDropout(nn.Embedding):
    """An embedding that is zero for some words, wherever they occur in the batch.

    Args:
        p: The share of the words.
    """

    def __init__(self, words: int, size: int, padding: int | None, p: float) -> None:
        super().__init__(words, size, padding_idx=padding)
        self.p = p

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded = super().forward(ids)
        if not self.training or not self.p:
            return embedded
        mask = F.dropout(embedded.new_ones(self.num_embeddings), self.p)
        return embedded * mask[ids].unsqueeze(2)


class WeightDropLSTM(nn.LSTM):
    """An LSTM layer with DropConnect: some of the recurrent weights are zero, the same at every token of a call.

    Its parameters are those of `torch.nn.LSTM`, whose kernels it runs.

    Args:
        p: The share of the recurrent weights.
    """

    def __init__(self, input_size: int, hidden_size: int, p: float) -> None:
        super().__init__(input_size, hidden_size, batch_first=True)
        self.p = p

    def forward(  # type: ignore[override]
        self, states: torch.Tensor, before: State | None = None
    ) -> tuple[torch.Tensor, State]:
        """The states at all tokens, and the one after the last.

        Args:
            before: The state after the tokens before these; None at the beginning of a text.
        """
        if before is None:
            zeros = states.new_zeros(1, states.shape[0], self.hidden_size)
            before = zeros, zeros
        below, recurrent, *biases = self.all_weights[0]
        weights = [below, F.dropout(recurrent, self.p, self.training), *biases]
        read, *after = torch.lstm(states, before, weights, True, 1, 0.0, self.training, False, True)
        return read, (after[0], after[1])
