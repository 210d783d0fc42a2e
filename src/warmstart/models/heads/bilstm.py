"""A BiLSTM over the hidden states of tokens: a head that reads their order, for frozen encoders."""

from __future__ import annotations

import torch
from torch import nn

from warmstart.errors import RecipeError


class BiLSTM(nn.Module):
    """LSTM layers in each direction, the states of both concatenated: the forward ones come first.

    Args:
        size: The size of the states to read.
        output_size: The size of the new states, both directions together; None for `size`.
        layers: How many layers, each of which reads the states of the one below.
        dropout: Dropout between them.
    """

    def __init__(self, size: int, output_size: int | None = None, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.output_size = output_size or size
        if self.output_size % 2:
            raise RecipeError(
                f"head.type: a bilstm needs hidden states of an even size, and these have {size}; set mlp, or "
                f"head.bilstm_size: {size + 1}"
            )
        between = dropout if layers > 1 else 0.0  # torch warns of dropout that has no place
        self.lstm = nn.LSTM(size, self.output_size // 2, layers, batch_first=True, dropout=between, bidirectional=True)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """New states at the positions of the old ones, and zeros for padding, which is never read.

        Args:
            states: Of shape (texts, tokens, size).
            mask: 1 for a token, 0 for padding, on whichever side it is.
        """
        # The tokens of each text come first, as packing needs them.
        positions = torch.arange(mask.shape[1], device=mask.device)
        # Each position has a number of its own, so that a sort that is not stable gives the same order.
        order = (mask.bool().int() * 2 * mask.shape[1] - positions).sort(dim=1, descending=True).indices
        front = order[..., None].expand_as(states)
        states = states.gather(1, front).float()
        lengths = mask.bool().sum(dim=1).clamp(min=1)
        # In fp16 or bf16 the sums over a long text would lose its first tokens.
        with torch.autocast(states.device.type, enabled=False):
            packed = nn.utils.rnn.pack_padded_sequence(states, lengths.cpu(), batch_first=True, enforce_sorted=False)
            read, _ = nn.utils.rnn.pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=states.shape[1]
            )
        return torch.zeros_like(read).scatter(1, order[..., None].expand_as(read), read)
