"""R-Drop: two passes with different dropout should give the same output; their divergence is added to the loss.

"R-Drop: Regularized Dropout for Neural Networks", Liang et al. 2021, eq. 4: L = -log P1 - log P2 + α·½(KL12 + KL21).
Here it is halved, so that it uses the mean of the two losses, and a learning rate means the same as without R-Drop.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F


def duplicate_batch(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A batch with every row twice, for one forward pass: dropout differs between the two halves."""
    return {name: torch.cat([tensor, tensor]) for name, tensor in inputs.items()}


def divergence(logits: torch.Tensor, problem_type: str | None) -> torch.Tensor:
    """The divergence between the outputs of the two halves of a duplicated batch, the mean over rows.

    Args:
        problem_type: The config's: single-label, multi-label, or regression, for which it is the squared difference.
    """
    first, second = logits.float().chunk(2)
    if problem_type == "regression":
        return (first - second).square().mean()
    if problem_type == "multi_label_classification":
        p, q = first.sigmoid(), second.sigmoid()
        return ((p - q) * (first - second)).mean() / 2  # ½(KL12 + KL21) of two Bernoulli distributions
    p, q = F.log_softmax(first, -1), F.log_softmax(second, -1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).mean() / 2
