"""Sides that are measured by turns, batch by batch, so that a machine that slows down slows all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from common import timed
from warmstart.inference.engines.base import Engine


class Turns:
    """An engine that lets the other sides go on as far as it has come itself, batch by batch.

    Now it comes first and now the others: who is first with a length finds no memory and no plan for it.

    Args:
        others: The steps of each other side; `bare` has about as many as there will be batches.

    Attributes:
        seconds: CPU time of each other side so far.
    """

    def __init__(self, engine: Engine, **others: list[Callable[[], object]]) -> None:
        self.engine, self.others = engine, others
        self.name, self.precision, self.gives_vectors = engine.name, engine.precision, engine.gives_vectors
        self.seconds = dict.fromkeys(others, 0.0)
        self.done = dict.fromkeys(others, 0)
        self.batches = 0

    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        self.batches += 1
        if self.batches % 2:
            self.go_on(self.batches / len(self.others["bare"]))
        found = self.engine.compute(inputs)
        self.go_on(self.batches / len(self.others["bare"]))
        return found

    def go_on(self, share: float) -> None:
        """Bring the other sides to this share of their steps."""
        for name, steps in self.others.items():
            until = min(len(steps), round(share * len(steps)))
            for step in steps[self.done[name] : until]:
                self.seconds[name] += timed(step)
            self.done[name] = max(until, self.done[name])
