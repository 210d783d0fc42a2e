"""A student learns its teacher's vectors of texts: of both, the mean of the tokens of the last layer.

As "Sun et al. 2019, Patient Knowledge Distillation for BERT Model Compression", eq. 7, compares them: by the squared
distance between vectors of length 1. Where the student is narrower or wider, a linear projection that is learned with
it, and thrown away, takes its vectors to the width of the teacher's ("TinyBERT", Jiao et al. 2020, eq. 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from warmstart.models.architectures import encoder_config
from warmstart.models.pooling import mean_of_tokens
from warmstart.tasks.shared.teacher_vectors import TEACHER_VECTOR

PROJECTION = "teacher_projection"
"""The name of the projection in the model while it is trained, and so in checkpoints."""


def vector_width(rows: Any) -> int | None:
    """The width of the teacher's vectors; None where the rows have none."""
    if TEACHER_VECTOR not in getattr(rows, "column_names", ()):
        return None
    return len(rows[0][TEACHER_VECTOR])


@contextmanager
def projection(model: nn.Module, width: int | None, seed: int) -> Iterator[None]:
    """Within it, the model has a projection to the teacher's width, where its own is another."""
    size = getattr(encoder_config(getattr(model, "config", None)), "hidden_size", None)
    if width is None or width == size:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = nn.Linear(int(size or 0), width, bias=False)
    model.add_module(PROJECTION, layer.to(next(model.parameters()).device))
    try:
        yield
    finally:
        delattr(model, PROJECTION)


def teacher_vectors(features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """The teacher's vectors of a batch, where its rows have any."""
    if TEACHER_VECTOR not in features[0]:
        return {}
    return {TEACHER_VECTOR: torch.tensor([feature[TEACHER_VECTOR] for feature in features])}


@dataclass
class MatchedVectors:
    """The last hidden states of a student for a batch, and the teacher's vectors of its texts, where it has any."""

    model: nn.Module
    mask: torch.Tensor | None
    teacher: torch.Tensor | None
    states: list[torch.Tensor] = field(default_factory=list)

    def add_to(self, loss: Any) -> Any:
        """A loss, and how far the student's vectors are from the teacher's."""
        if self.teacher is None or self.mask is None:
            return loss
        return loss + matching_loss(self.model, self.states[0], self.mask, self.teacher)


@contextmanager
def matched_vectors(model: nn.Module, inputs: dict[str, torch.Tensor]) -> Iterator[MatchedVectors]:
    """Takes the teacher's vectors out of a batch, and collects the states that the model's encoder computes for it."""
    matched = MatchedVectors(model, inputs.get("attention_mask"), inputs.pop(TEACHER_VECTOR, None))
    if matched.teacher is None:
        yield matched
        return
    encoder = getattr(model, "base_model", model)
    hook = encoder.register_forward_hook(lambda _, inputs, output: matched.states.append(output[0]))
    try:
        yield matched
    finally:
        hook.remove()


def matching_loss(model: nn.Module, states: torch.Tensor, mask: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The squared distance from the teacher's vectors, the mean over all rows; 0 for those that it has not read."""
    vectors = mean_of_tokens(states, mask).float()
    if isinstance(layer := getattr(model, PROJECTION, None), nn.Module):
        vectors = layer(vectors).float()
    read = ~teacher.isnan().any(dim=1)
    distances = (F.normalize(vectors, dim=1) - F.normalize(teacher.nan_to_num(), dim=1)).square().sum(dim=1)
    return (distances * read).mean()
