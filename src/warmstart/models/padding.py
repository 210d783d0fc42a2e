"""Padding that a model would read: tokens are moved to the front of their rows, and states back to their places."""

from __future__ import annotations

import torch

from warmstart.models.pooling import is_tracing


def reading_order(ids: torch.Tensor, mask: torch.Tensor | None, backward: bool = False) -> torch.Tensor | None:
    """The positions of each row in the order in which they are read, padding last; None where that is their own."""
    if mask is None:
        if not backward:
            return None
        mask = torch.ones_like(ids)
    if not backward and not is_tracing() and bool((mask[:, :-1] >= mask[:, 1:]).all()):
        return None
    positions = torch.arange(mask.shape[1], device=mask.device)
    # Each position has a number of its own, so that a sort that is not stable gives the same order.
    numbers = mask.bool().int() * 2 * mask.shape[1] + (positions if backward else -positions)
    return numbers.sort(dim=1, descending=True).indices


def put_back(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """States in the order of the text, which were computed in another."""
    return torch.zeros_like(states).scatter(1, order[..., None].expand_as(states), states)
