"""Reading documents of any length in pieces: back-propagation through time for text classification.

BPT3C (ULMFiT, Howard and Ruder 2018, section 3.3): a document is read piece by piece, each starting from the state
after the one before; the states of all pieces are pooled, and gradients reach back into the last pieces alone. So
neither answering nor learning takes more memory for a longer document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from warmstart.models.padding import reading_order
from warmstart.models.pooling import is_tracing
from warmstart.models.recurrent.awd_lstm import AwdLstmModel
from warmstart.models.recurrent.dropouts import State


def pool_documents(
    encoder: AwdLstmModel, ids: torch.Tensor, mask: torch.Tensor | None, piece: int, max_gradient_tokens: int
) -> torch.Tensor:
    """One vector a document: the state that was read last, and the maximum and the mean of all.

    Args:
        mask: 1 for a token, 0 for padding, on whichever side it is.
        piece: Tokens of a piece.
        max_gradient_tokens: From how many of the last tokens gradients come, in whole pieces, at least one.
    """
    mask = torch.ones_like(ids) if mask is None else mask
    order = reading_order(ids, mask, encoder.config.direction == "backward")
    if order is not None:
        ids = ids.gather(1, order)
    lengths = mask.bool().sum(1).clamp(min=1)
    if is_tracing():  # a trace has a fixed number of pieces: one
        valid = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        last, maximum, total = _pooled(encoder(ids, in_reading_order=True).last_hidden_state, valid)
        return torch.cat([last, maximum, total / lengths[:, None]], dim=1)
    counts = (lengths + piece - 1).div(piece, rounding_mode="floor")
    # Longest first, and all end with the last piece: so those that are being read are always the first ones.
    longest = counts.sort(descending=True, stable=True).indices
    ids, lengths, counts = ids[longest], lengths[longest], counts[longest]
    pools = _Pools(lengths, encoder.config.embedding_size)
    pieces = int(counts[0])
    kept = max(1, max_gradient_tokens // piece)
    state: Sequence[State] | None = None
    for number in range(pieces):
        active = int((counts >= pieces - number).sum())
        starts = (number - pieces + counts[:active]) * piece
        places = starts[:, None] + torch.arange(min(piece, ids.shape[1]), device=ids.device)
        valid = places < lengths[:active, None]
        tokens = ids[:active].gather(1, places.clamp(max=ids.shape[1] - 1))
        with nullcontext() if number >= pieces - kept else torch.no_grad():
            outputs = encoder(tokens, state=_widened(state, active), in_reading_order=True)
            vectors, state = pools.add(outputs.last_hidden_state, valid), outputs.state
    return vectors[longest.argsort()]


class _Pools:
    """The maximum and the sum of the states read so far, of each document.

    Args:
        lengths: Tokens of each document.
        size: The size of a state.
    """

    def __init__(self, lengths: torch.Tensor, size: int) -> None:
        self.lengths = lengths
        self.maximum = torch.full((len(lengths), size), -math.inf, device=lengths.device)
        self.sum = torch.zeros(len(lengths), size, device=lengths.device)

    def add(self, states: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Add the states of a piece of the first documents; gives the vectors of these so far.

        Args:
            valid: Whether each state is that of a token.
        """
        count = len(states)
        last, maximum, total = _pooled(states, valid)
        maximum, total = torch.maximum(self.maximum[:count], maximum), self.sum[:count] + total
        self.maximum = torch.cat([maximum, self.maximum[count:]])
        self.sum = torch.cat([total, self.sum[count:]])
        return torch.cat([last, maximum, total / self.lengths[:count, None]], dim=1)


def _pooled(states: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The last state of each row, the maximum of all and their sum."""
    last = states.gather(1, (valid.sum(1) - 1)[:, None, None].expand(-1, 1, states.shape[2])).squeeze(1)
    return last, states.masked_fill(~valid[..., None], -math.inf).amax(1), (states * valid[..., None]).sum(1)


def _widened(state: Sequence[State] | None, documents: int) -> Sequence[State] | None:
    """The state of the documents that have been read, and zeros for those that begin now."""
    if state is None or state[0][0].shape[1] == documents:
        return state
    more = documents - state[0][0].shape[1]
    return [
        (torch.cat([hidden, _zeros(hidden, more)], dim=1), torch.cat([cell, _zeros(cell, more)], dim=1))
        for hidden, cell in state
    ]


def _zeros(like: torch.Tensor, documents: int) -> torch.Tensor:
    return like.new_zeros(1, documents, like.shape[2])
