"""Soft labels of a row: the target that they are, and the loss against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from warmstart.tasks.shared.label_columns import PROBABILITIES as PROBABILITIES


def is_soft(answer: Any) -> bool:
    """Whether an answer is a list of `{label, probability}`."""
    return isinstance(answer, list) and bool(answer) and isinstance(answer[0], Mapping)


def weighted_labels(answer: Any) -> Mapping[str, float]:
    """The labels of an answer, one, several or soft, with their probabilities."""
    if is_soft(answer):
        return {item["label"]: item["probability"] for item in answer}
    return dict.fromkeys([answer] if isinstance(answer, str) else answer, 1.0)


def target(answer: Sequence[Mapping[str, Any]], ids: Mapping[str, int]) -> list[float]:
    """The probability of each label, by its id."""
    row = [0.0] * len(ids)
    for item in answer:
        row[ids[item["label"]]] = item["probability"]
    return row


def soft_cross_entropy(
    scores: torch.Tensor,
    targets: torch.Tensor,
    temperature: float = 1.0,
    weight: torch.Tensor | None = None,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Cross-entropy against distributions, the mean over rows.

    With a temperature T, the targets are taken to the power of 1/T, the logits are divided by T, and the loss is
    multiplied by T², so that its gradient keeps its size ("Distilling the Knowledge in a Neural Network", Hinton et al.
    2015). A row that is certain of its label has no temperature: its loss is the ordinary one.
    """
    certain = targets.max(dim=1, keepdim=True).values == 1
    scale = torch.where(certain, 1.0, temperature).to(scores)
    softer = targets.to(scores) ** (1 / scale)
    softer = softer / softer.sum(dim=1, keepdim=True)
    rows = F.cross_entropy(scores / scale, softer, weight=weight, label_smoothing=label_smoothing, reduction="none")
    return (rows * scale.squeeze(1) ** 2).mean()
