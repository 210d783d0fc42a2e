"""R-Drop: two passes with different dropout should give one answer; what they differ by is added to the loss.

"R-Drop: Regularized Dropout for Neural Networks", Liang et al. 2021, eq. 4: L = -log P1 - log P2 + α·½(KL12 + KL21).
Here half of it, the mean of the two losses, so that a rate means what it means without.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def doubled(inputs: dict[str, Any]) -> dict[str, Any]:
    """A batch with every row twice, to be passed once: dropout differs between the two halves."""
    return {name: torch.cat([tensor, tensor]) for name, tensor in inputs.items()}


def divergence(logits: torch.Tensor, problem: str | None) -> torch.Tensor:
    """How far the answers of the two halves of a doubled batch are apart, the mean over rows.

    Args:
        problem: The config's `problem_type`: one label, many labels, or a number, whose squared difference is taken.
    """
    one, two = logits.float().chunk(2)
    if problem == "regression":
        return (one - two).square().mean()
    if problem == "multi_label_classification":
        p, q = one.sigmoid(), two.sigmoid()
        return ((p - q) * (one - two)).mean() / 2  # ½(KL12 + KL21) of two Bernoulli distributions
    p, q = F.log_softmax(one, -1), F.log_softmax(two, -1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).mean() / 2
