"""Whether two engines give the same answers: words and whole numbers equal, other numbers close."""

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
"""How far numbers of two engines in 32 bits may be apart."""


@dataclass
class Same:
    """What was found of answers held against each other.

    Attributes:
        differ: How many are other answers: another label, another place in the text.
        worst: By how much two numbers of the same answer were apart, at most.
    """

    rows: int = 0
    differ: int = 0
    worst: float = 0.0

    @property
    def holds(self) -> bool:
        return not self.differ and self.worst <= CLOSE


def check_lengths(torch_engine: Engine, graph: Engine, inputs: Mapping[str, torch.Tensor], tokens: int) -> None:
    """Refuse a graph that is right for batches of the shape it was traced with alone.

    Args:
        inputs: The batch that it was traced with; here its texts are cut short, and repeated to fill the window.
        tokens: The length of the window.
    """
    few = slice(None) if {"slices", "texts"} & set(inputs) else slice(1)
    for rows, length in ((few, SHORT), (slice(None), tokens)):
        given = {name: _of_length(one[rows], length) if one.dim() > 1 else one for name, one in inputs.items()}
        given["attention_mask"] = torch.ones_like(given["attention_mask"])
        expected, found = torch_engine.compute(given), graph.compute(given)
        apart = max(float(((one - found[name]).abs() / one.abs().clamp(min=1)).max()) for name, one in expected.items())
        if not apart <= CLOSE:
            raise ModelError(
                f"the ONNX graph of this model gives other numbers than PyTorch for texts of {length} tokens, "
                f"{apart:.1e} apart, so it is not written; answer with --engine torch"
            )


def _of_length(tensor: torch.Tensor, tokens: int) -> torch.Tensor:
    return torch.cat([tensor] * (tokens // tensor.shape[-1] + 1), dim=-1)[..., :tokens]


def hold_against(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> Same:
    """Hold answers against those that were expected, one by one."""
    same = Same()
    for one, two in zip(expected, found, strict=True):
        apart = _apart(one, two)
        same.rows += 1
        same.differ += apart is None
        same.worst = max(same.worst, apart or 0.0)
    return same


def _apart(one: Any, two: Any) -> float | None:
    """The greatest distance between numbers of two answers; None where they are not the same answer."""
    if isinstance(one, float) and isinstance(two, float):
        # Of numbers above 1, such as a loss or a score, so many digits count.
        return abs(one - two) / max(1.0, abs(one))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return _most([_apart(one[key], two[key]) for key in one]) if one.keys() == two.keys() else None
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return _most([_apart(a, b) for a, b in zip(one, two, strict=True)]) if len(one) == len(two) else None
    return 0.0 if one == two else None


def _most(distances: Sequence[float | None]) -> float | None:
    known = [one for one in distances if one is not None]
    return max(known, default=0.0) if len(known) == len(distances) else None
