"""A BiLSTM over the hidden states of tokens: a head that reads their order, for encoders that are held still."""

from __future__ import annotations

import torch
from torch import nn

from warmstart.errors import RecipeError


class BiLSTM(nn.Module):
    """A layer of LSTM in each direction, whose states side by side are as wide as what they read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise RecipeError(f"head.type: a bilstm needs states of an even width, and these are {width} wide; say mlp")
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """New states, each where the old one was, and zeros for padding, which is never read.

        Args:
            states: Of shape (texts, tokens, width).
            mask: 1 for a token, 0 for padding, on whichever side it is.
        """
        # The tokens of each text at the front, as packing wants them.
        places = torch.arange(mask.shape[1], device=mask.device)
        # Each place its own number, so that the order is one that any engine finds, with a stable sort or without.
        order = (mask.bool().int() * 2 * mask.shape[1] - places).sort(dim=1, descending=True).indices
        front = order[..., None].expand_as(states)
        states = states.gather(1, front).float()
        lengths = mask.bool().sum(dim=1).clamp(min=1)
        # Left to 16 bits, the sums over a long text would lose what its first tokens said.
        with torch.autocast(states.device.type, enabled=False):
            packed = nn.utils.rnn.pack_padded_sequence(states, lengths.cpu(), batch_first=True, enforce_sorted=False)
            read, _ = nn.utils.rnn.pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=states.shape[1]
            )
        return torch.zeros_like(read).scatter(1, front, read)
