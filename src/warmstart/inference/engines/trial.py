"""`--engine auto`: a short trial of the engines there are on texts that are to be answered, and the fastest taken."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch

from warmstart.errors import ModelError
from warmstart.inference.batching import size
from warmstart.inference.engines.base import Engine

FEWEST = 64
"""Texts below which a trial would cost more than it saves."""
SECONDS = 10.0
"""What a trial may cost in all, the opening of engines included; but each length is tried once."""
GROUPS = 4
"""Batches that engines are tried on, of short texts to long ones."""
ROUNDS = ((512, 1), (4096, 3))
"""How many tokens a batch has, and how often each is computed: small ones show who has no hope, and large ones, as they
will be when texts are answered, who is the fastest."""
HOPELESS = 3.0
"""An engine that takes so many times as long as the fastest on the batches so far is tried no further."""

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


@dataclass(frozen=True, eq=False)
class Group:
    """A batch that engines are tried on, and what it stands for."""

    texts: int
    """How many texts are about as long as these."""
    rows: int
    batch: Batch


Times = dict[Group, float]
"""Seconds for each batch."""


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

    def choose(self, rounds: Sequence[Sequence[Group]]) -> tuple[Engine, dict[str, float]]:
        """The fastest candidate, and the texts per second of each, timed by turns.

        Args:
            rounds: The batches of each of `ROUNDS`.
        """
        begun = time.perf_counter()
        opened: dict[str, Engine] = {}
        for one in self.candidates:
            if opened and time.perf_counter() - begun > SECONDS / 2:
                break
            opened[str(one)] = engine = self.first if one is self.candidates[0] else one.open()
            engine.compute(rounds[0][0].batch)  # a first pass is a slow one
        racing, took = opened, []
        for groups, (_, turns) in zip(rounds, ROUNDS, strict=True):
            took.append(_race(racing, groups, turns, begun))
            racing = {name: opened[name] for name, times in took[-1].items() if len(times) == len(groups)}
        best = min(racing, key=lambda name: _seconds(took[-1][name]))
        speed = sum(group.texts for group in took[-1][best]) / _seconds(took[-1][best])
        # Who left early is told as a share of the best on the batches that it was tried on.
        speeds = {
            name: speed * _seconds(times[best], some) / _seconds(some) for times in took for name, some in times.items()
        }
        return opened[best], speeds


def _race(engines: Mapping[str, Engine], groups: Sequence[Group], turns: int, begun: float) -> dict[str, Times]:
    """The seconds of each engine for each batch, or for some, where it was seen to have no hope."""
    took: dict[str, Times] = {name: {} for name in engines}
    racing = dict(engines)
    for turn, group in enumerate(list(groups) * turns, 1):
        before = time.perf_counter()
        for name, engine in racing.items():
            start = time.perf_counter()
            engine.compute(group.batch)
            # What else the machine does can only make it slower.
            took[name][group] = min(time.perf_counter() - start, took[name].get(group, math.inf))
        fastest = min(_seconds(took[name]) for name in racing)
        racing = {name: one for name, one in racing.items() if _seconds(took[name]) <= HOPELESS * fastest}
        now = time.perf_counter()
        # Not before all lengths were tried: which engine is the fastest may change with them.
        if turn >= len(groups) and now - begun + (now - before) > SECONDS:
            break
    return took


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
    rounds = [
        [Group(texts, len(some), collate(some)) for texts, some in spread(features, tokens)] for tokens, _ in ROUNDS
    ]
    found, speeds = engine.choose(rounds)
    return found, {"engine": found.name, "precision": found.precision, "texts_per_second": speeds}


def spread(features: Sequence[Feature], tokens: int) -> list[tuple[int, list[Feature]]]:
    """Features in shares of about as many tokens each, from short ones to long ones: how many a share has, and some
    of its middle, of like length and about so many tokens together.

    By tokens, since they are what an engine computes: a few long texts cost more than many short ones.
    """
    ordered = sorted(features, key=size)
    ends = list(accumulate(map(size, ordered)))
    found = []
    start = 0
    for number in range(1, GROUPS + 1):
        stop = bisect_left(ends, ends[-1] * number / GROUPS) + 1
        # At least one of what is left for each share that is still to come.
        stop = max(start + 1, min(stop, len(ordered) - GROUPS + number))
        share = ordered[start:stop]
        middle = len(share) // 2
        rows = max(1, min(len(share), tokens // max(size(share[middle]), 1)))
        first = min(max(0, middle - rows // 2), len(share) - rows)
        found.append((len(share), share[first : first + rows]))
        start = stop
    return found


def _seconds(took: Times, only: Iterable[Group] | None = None) -> float:
    """What the texts that the timed batches stand for would take, all of them or those of some batches."""
    return sum(took[one] / one.rows * one.texts for one in (took if only is None else only))
