"""Whether two engines give the same answers: labels and integers equal, other numbers close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warmstart.errors import ModelError
from warmstart.inference.engines.base import Engine

SHORT = 5
"""Tokens of a short text."""
CLOSE = 1e-4
"""How much numbers of two fp32 engines may differ."""


@dataclass
class AnswerComparison:
    """The answers of two engines compared.

    Attributes:
        differ: How many are different answers: another label, another span of the text.
        worst: The largest difference between two numbers of the same answer.
    """

    rows: int = 0
    differ: int = 0
    worst: float = 0.0

    @property
    def equal(self) -> bool:
        return not self.differ and self.worst <= CLOSE


def check_lengths(torch_engine: Engine, graph: Engine, inputs: Mapping[str, torch.Tensor], tokens: int) -> None:
    """Refuse a graph that is only right for batches of the shape it was traced with.

    Args:
        inputs: The batch that it was traced with; its texts are truncated here, and repeated to fill the window.
        tokens: The length of the window.
    """
    few = slice(None) if {"slices", "texts"} & set(inputs) else slice(1)
    for rows, length in ((few, SHORT), (slice(None), tokens)):
        batch = {
            name: _of_length(tensor[rows], length) if tensor.dim() > 1 else tensor for name, tensor in inputs.items()
        }
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
        expected, actual = torch_engine.compute(batch), graph.compute(batch)
        difference = max(
            float(((output - actual[name]).abs() / output.abs().clamp(min=1)).max())
            for name, output in expected.items()
        )
        if not difference <= CLOSE:
            raise ModelError(
                f"the ONNX graph of this model gives other numbers than PyTorch for texts of {length} tokens, by "
                f"{difference:.1e}, so it is not written; use --engine torch"
            )


def _of_length(tensor: torch.Tensor, tokens: int) -> torch.Tensor:
    return torch.cat([tensor] * (tokens // tensor.shape[-1] + 1), dim=-1)[..., :tokens]


def compare_answers(expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, Any]]) -> AnswerComparison:
    """Compare answers with those that were expected, one by one."""
    comparison = AnswerComparison()
    for wanted, answer in zip(expected, actual, strict=True):
        difference = _difference(wanted, answer)
        comparison.rows += 1
        comparison.differ += difference is None
        comparison.worst = max(comparison.worst, difference or 0.0)
    return comparison


def _difference(one: object, two: object) -> float | None:
    """The largest difference between numbers of two answers; None where they are different answers."""
    if isinstance(one, float) and isinstance(two, float):
        # Relative for numbers above 1, such as a loss or a score.
        return abs(one - two) / max(1.0, abs(one))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return _largest([_difference(one[key], two[key]) for key in one]) if one.keys() == two.keys() else None
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return _largest([_difference(a, b) for a, b in zip(one, two, strict=True)]) if len(one) == len(two) else None
    return 0.0 if one == two else None


def _largest(differences: Sequence[float | None]) -> float | None:
    known = [difference for difference in differences if difference is not None]
    return max(known, default=0.0) if len(known) == len(differences) else None
