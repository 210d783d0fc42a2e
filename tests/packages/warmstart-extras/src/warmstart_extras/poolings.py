"""smooth-max: between the mean and the maximum of the tokens."""

import torch
from torch import nn


class SmoothMax(nn.Module):
    """A mean in which larger values weigh more, by how much is learned: 0 gives the mean, infinity the maximum."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.ones(size))

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """States (texts, tokens, size) and their mask (texts, tokens), false for padding → (texts, size)."""
        scores = (states * self.sharpness).masked_fill(~mask[..., None], torch.finfo(states.dtype).min)
        return (scores.softmax(dim=1) * states).sum(dim=1)
