"""`--engine auto`: a short trial of the engines there are on texts that are to be answered, and the fastest taken."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from warmstart.deploy.batches import size
from warmstart.deploy.engines.base import Engine
from warmstart.errors import ModelError

FEWEST = 64
"""Texts below which a trial would cost more than it saves."""
SECONDS = 10.0
"""What a trial may cost in all, the opening of engines included."""
GROUPS, TOKENS, TURNS = 4, 512, 5
"""Batches that every engine is tried on, of short texts to long ones, how many tokens each has, and how often."""

Batch = Mapping[str, torch.Tensor]
Feature = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """An engine that can be tried."""

    name: str
    precision: str
    open: Callable[[], Engine]

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"


class Undecided:
    """An engine that is still to be chosen: it computes by the first candidate until a trial was made.

    Attributes:
        candidates: PyTorch first, where it is among them.
    """

    name = "auto"

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        if not candidates:
            raise ModelError("engine: found none that can be tried here in this precision; say --engine torch")
        self.candidates = candidates

    @cached_property
    def first(self) -> Engine:
        return self.candidates[0].open()

    @property
    def precision(self) -> str:
        return self.first.precision

    @property
    def gives_vectors(self) -> bool:
        return self.first.gives_vectors

    def compute(self, inputs: Batch) -> dict[str, torch.Tensor]:
        return self.first.compute(inputs)

    def choose(self, batches: Sequence[tuple[int, Batch]]) -> tuple[Engine, dict[str, float]]:
        """The fastest candidate, and the texts per second of each, timed by turns.

        Args:
            batches: The number of texts in each, and its inputs.
        """
        begun = time.perf_counter()
        opened: dict[str, Engine] = {}
        for one in self.candidates:
            if opened and time.perf_counter() - begun > SECONDS / 2:
                break
            opened[str(one)] = engine = self.first if one is self.candidates[0] else one.open()
            for _, batch in batches[:2]:
                engine.compute(batch)  # a first pass is a slow one
        took: dict[str, list[list[float]]] = {name: [[] for _ in batches] for name in opened}
        for turn in range(TURNS * len(batches)):
            before = time.perf_counter()
            for name, engine in opened.items():
                start = time.perf_counter()
                engine.compute(batches[turn % len(batches)][1])
                took[name][turn % len(batches)].append(time.perf_counter() - start)
            now = time.perf_counter()
            if now - begun + (now - before) > SECONDS:
                break
        counts = [count for count, _ in batches]
        speeds = {name: _speed(counts, times) for name, times in took.items()}
        return opened[max(speeds, key=speeds.__getitem__)], speeds


def settle(
    engine: Engine, features: Sequence[Feature], collate: Callable[[list[Feature]], Batch]
) -> tuple[Engine, dict[str, Any] | None]:
    """The engine to go on with, and what is to be told of its choice; None where there was none to make.

    Args:
        features: Those of the first texts.
        collate: Makes a batch of some.
    """
    if not isinstance(engine, Undecided):
        return engine, None
    told = {"engine": engine.first.name, "precision": engine.first.precision}
    if len(engine.candidates) == 1:
        return engine.first, told | {"why": "nothing else is there to try: see `warmstart export`"}
    if len(features) < FEWEST:
        return engine, told | {"why": f"a trial takes {FEWEST} texts, and there are {len(features)}"}
    found, speeds = engine.choose([(len(group), collate(group)) for group in spread(features)])
    return found, {"engine": found.name, "precision": found.precision, "texts_per_second": speeds}


def spread(features: Sequence[Feature]) -> list[list[Feature]]:
    """Small groups of like length, each of the middle of a share of all features, from short ones to long ones."""
    ordered = sorted(features, key=size)
    count = len(ordered) // GROUPS
    found = []
    for number in range(GROUPS):
        share = ordered[number * count : (number + 1) * count]
        middle = len(share) // 2
        rows = max(1, min(len(share), TOKENS // max(size(share[middle]), 1)))
        start = min(max(0, middle - rows // 2), len(share) - rows)
        found.append(share[start : start + rows])
    return found


def _speed(counts: Sequence[int], took: Sequence[Sequence[float]]) -> float:
    """Texts per second where as many texts are of each batch's length, of the batches that were timed."""
    each = [statistics.median(times) / count for count, times in zip(counts, took, strict=True) if times]
    return len(each) / sum(each)
