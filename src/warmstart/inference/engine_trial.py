"""`--engine auto`: a short trial of all engines on texts that are to be answered; the fastest is used."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NotRequired, Self, TypeAlias, TypedDict

import torch

from warmstart.errors import ModelError
from warmstart.inference.batching import count_tokens
from warmstart.inference.engines.base import AUTO, Engine, ModelSource
from warmstart.tasks.base import AnyFeature

MIN_TEXTS = 64
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

TrialInputs: TypeAlias = Mapping[str, torch.Tensor]


class EngineTrial(TypedDict):
    """Which engine was chosen, and how."""

    engine: str
    precision: str
    texts_per_second: NotRequired[dict[str, float]]
    """The speed of each candidate, where they were timed."""
    why: NotRequired[str]
    """Why they were not."""


@dataclass(frozen=True)
class EngineCandidate:
    """An engine that can be tried."""

    name: str
    precision: str
    load: Callable[[], Engine]

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"


@dataclass(frozen=True, eq=False)
class TrialBatch:
    """A batch that engines are tried on, and the texts it represents."""

    texts: int
    """How many texts are about as long as these."""
    rows: int
    batch: TrialInputs


Times = dict[TrialBatch, float]
"""Seconds for each batch."""


class UndecidedEngine(Engine):
    """An engine that is still to be chosen: it computes by the first candidate until a trial was made.

    Attributes:
        candidates: PyTorch first, where it is among them.
    """

    name = AUTO
    precisions = ()

    def __init__(self, candidates: Sequence[EngineCandidate]) -> None:
        if not candidates:
            raise ModelError("engine: found none that can be tried here in this precision; use --engine torch")
        self.candidates = candidates

    @classmethod
    def load(cls, source: ModelSource, precision: str) -> Self:
        raise NotImplementedError  # made by `engine_selection.load_engine`

    @cached_property
    def first(self) -> Engine:
        return self.candidates[0].load()

    @property
    def precision(self) -> str:  # type: ignore[override]
        return self.first.precision

    @property
    def gives_vectors(self) -> bool:
        return self.first.gives_vectors

    def compute(self, inputs: TrialInputs) -> dict[str, torch.Tensor]:
        return self.first.compute(inputs)

    def choose(self, rounds: Sequence[Sequence[TrialBatch]]) -> tuple[Engine, dict[str, float]]:
        """The fastest candidate, and the texts per second of each, timed by turns.

        Args:
            rounds: The batches of each of `ROUNDS`.
        """
        begun = time.perf_counter()
        opened: dict[str, Engine] = {}
        for candidate in self.candidates:
            if opened and time.perf_counter() - begun > SECONDS / 2:
                break
            opened[str(candidate)] = engine = self.first if candidate is self.candidates[0] else candidate.load()
            engine.compute(rounds[0][0].batch)  # a first pass is a slow one
        racing, took = opened, []
        for groups, (_, turns) in zip(rounds, ROUNDS, strict=True):
            took.append(_race(racing, groups, turns, begun))
            racing = {name: opened[name] for name, times in took[-1].items() if len(times) == len(groups)}
        best = min(racing, key=lambda name: _seconds(took[-1][name]))
        speed = sum(group.texts for group in took[-1][best]) / _seconds(took[-1][best])
        # Who left early is shown as a share of the best on the batches that it was tried on.
        speeds = {
            name: speed * _seconds(times[best], some) / _seconds(some) for times in took for name, some in times.items()
        }
        return opened[best], speeds


def _race(engines: Mapping[str, Engine], groups: Sequence[TrialBatch], turns: int, begun: float) -> dict[str, Times]:
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
        racing = {name: engine for name, engine in racing.items() if _seconds(took[name]) <= HOPELESS * fastest}
        now = time.perf_counter()
        # Not before all lengths were tried: which engine is the fastest may change with them.
        if turn >= len(groups) and now - begun + (now - before) > SECONDS:
            break
    return took


def settle(
    engine: Engine, features: Sequence[AnyFeature], collate: Callable[[list[AnyFeature]], TrialInputs]
) -> tuple[Engine, EngineTrial | None]:
    """The engine to use from now on, and how it was chosen; None where there was nothing to choose.

    Args:
        features: Those of the first texts.
        collate: Makes a batch of some.
    """
    if not isinstance(engine, UndecidedEngine):
        return engine, None
    first: EngineTrial = {"engine": engine.first.name, "precision": engine.first.precision}
    if len(engine.candidates) == 1:
        return engine.first, {**first, "why": "there is nothing else to try: see `warmstart export`"}
    if len(features) < MIN_TEXTS:
        return engine, {**first, "why": f"a trial takes {MIN_TEXTS} texts, and there are {len(features)}"}
    rounds = [
        [TrialBatch(texts, len(some), collate(some)) for texts, some in spread(features, tokens)]
        for tokens, _ in ROUNDS
    ]
    best, speeds = engine.choose(rounds)
    return best, {"engine": best.name, "precision": best.precision, "texts_per_second": speeds}


def spread(features: Sequence[AnyFeature], tokens: int) -> list[tuple[int, list[AnyFeature]]]:
    """Features in shares of about as many tokens each, from short ones to long ones: how many a share has, and some
    of its middle, of like length and about so many tokens together.

    By tokens, since they are what an engine computes: a few long texts cost more than many short ones.
    """
    ordered = sorted(features, key=count_tokens)
    ends = list(accumulate(map(count_tokens, ordered)))
    shares = []
    start = 0
    for number in range(1, GROUPS + 1):
        stop = bisect_left(ends, ends[-1] * number / GROUPS) + 1
        # At least one of what is left for each share that is still to come.
        stop = max(start + 1, min(stop, len(ordered) - GROUPS + number))
        share = ordered[start:stop]
        middle = len(share) // 2
        rows = max(1, min(len(share), tokens // max(count_tokens(share[middle]), 1)))
        first = min(max(0, middle - rows // 2), len(share) - rows)
        shares.append((len(share), share[first : first + rows]))
        start = stop
    return shares


def _seconds(took: Times, only: Iterable[TrialBatch] | None = None) -> float:
    """What the texts that the timed batches represent would take, all of them or those of some batches."""
    batches = took if only is None else only
    return sum(took[batch] / batch.rows * batch.texts for batch in batches)
