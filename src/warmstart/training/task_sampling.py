"""Rows of several tasks in one training: how often each task has its turn, and batches of one task each.

With n rows, a task's share of the steps is n^α over the sum of all tasks', at least one step an epoch: α = 1 is
`proportional`, ½ `square-root`, 0 `uniform`, 1/T `temperature` ("Massively Multilingual Neural Machine Translation in
the Wild", Arivazhagan et al. 2019, §4.2), and `annealed` goes from 1 in the first epoch to 0.2 in the last: α = 1 −
0.8·(e − 1)/(E − 1) in epoch e of E ("BERT and PALs", Stickland and Murray 2019, §3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from warmstart.errors import RecipeError, nearest
from warmstart.training.batches import LengthBatches, RandomBatches, grouping_of

SAMPLINGS = ("proportional", "square-root", "temperature", "uniform", "annealed")
APART = 1_000_003
"""Between the seeds of two tasks, so that those with as many rows are not shuffled alike."""


def shares(
    sizes: Sequence[int], sampling: str, temperature: float = 1.0, epoch: int = 0, epochs: float = 1
) -> list[float]:
    """The share of the steps that each task has in an epoch counted from 0; they sum to 1.

    Args:
        sizes: Rows of each task.
        temperature: T of `temperature`.
        epochs: How many epochs there are, for `annealed`.
    """
    if sampling not in SAMPLINGS:
        raise RecipeError(f"sampling: found {sampling!r}; {nearest(sampling, SAMPLINGS)}")
    done = epoch / (math.ceil(epochs) - 1) if epochs > 1 else 0.0
    fixed = {"proportional": 1.0, "square-root": 0.5, "temperature": 1 / temperature, "uniform": 0.0}
    power = fixed.get(sampling, 1 - 0.8 * min(done, 1.0))
    found = [size**power for size in sizes]
    return [one / sum(found) for one in found]


def turns(parts: Sequence[float], steps: int) -> list[int]:
    """How many of `steps` each task has: its share rounded by largest remainder, and at least one."""
    exact = [part * steps for part in parts]
    found = [max(1, int(one)) for one in exact]
    while sum(found) != steps:
        more = 1 if sum(found) < steps else -1
        open_to = [place for place in range(len(found)) if more > 0 or found[place] > 1]
        found[max(open_to, key=lambda place: more * (exact[place] - found[place]))] += more
    return found


class Mixed:
    """The encoded rows of several tasks as one sequence; each says by `which` whose it is.

    The number of a row, as messages use it, tells its task too: see `place`.

    Args:
        parts: The encoded rows of each task, by its name.
        sampling: One of `SAMPLINGS`.
        temperature: T of `temperature`.
    """

    def __init__(self, parts: Mapping[str, Any], sampling: str = "square-root", temperature: float = 1.0) -> None:
        self.parts = dict(parts)
        self.names = list(parts)
        self.sampling = sampling
        self.temperature = temperature
        self.starts = np.cumsum([0, *(len(rows) for rows in parts.values())])
        shares([1], sampling)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several rows, all of one task, as a `DataLoader` asks for those of a batch."""
        number = int(np.searchsorted(self.starts, indices[0], side="right")) - 1
        rows = self.parts[self.names[number]]
        own = [int(index - self.starts[number]) for index in indices]
        found = rows.__getitems__(own) if hasattr(rows, "__getitems__") else [rows[index] for index in own]
        which, count = self.names[number], len(self.names)
        return [{**row, "which": which, "row": row["row"] * count + number} for row in found]

    def place(self, row: int) -> tuple[str, int]:
        """The task of a row's number, and the number in its own data."""
        return self.names[row % len(self.names)], row // len(self.names)


class MixedBatches(RandomBatches):
    """Batches of one task each; an epoch has as many steps as all rows together make.

    Within a task rows come as by `RandomBatches` or `LengthBatches`: each once before any comes again, in an order that
    is new each time, going on from one epoch to the next. All depends on the seed and the epoch alone.

    Args:
        rows: The rows of all tasks.
        batch: Rows a step learns from, on each process.
        by_length: Whether rows of like length come together.
        epochs: How many epochs there will be, for `annealed`; may be set later.
        seed: Together with the epoch, decides everything random.
        processes: How many processes share each step; all have the same task in it.
        process: Which of them this is.
    """

    def __init__(
        self,
        rows: Mixed,
        batch: int = 32,
        *,
        by_length: bool = True,
        epochs: float = 1,
        seed: int = 0,
        processes: int = 1,
        process: int = 0,
    ) -> None:
        super().__init__(len(rows), batch, seed=seed, processes=processes, process=process)
        self.mixed = rows
        self.epochs = epochs
        self.own: list[RandomBatches] = []
        for number, part in enumerate(rows.parts.values(), 1):
            mine = {"seed": seed + APART * number, "processes": processes, "process": process}
            one = (
                LengthBatches(grouping_of(part), batch, **mine)
                if by_length
                else RandomBatches(len(part), batch, **mine)
            )
            self.own.append(one)

    def __len__(self) -> int:
        return sum(map(len, self.own))

    def turns(self, epoch: int) -> list[int]:
        """How many steps of an epoch each task has."""
        sizes = [len(part) for part in self.mixed.parts.values()]
        parts = shares(sizes, self.mixed.sampling, self.mixed.temperature, epoch, self.epochs)
        return turns(parts, len(self))

    def __iter__(self) -> Iterator[list[int]]:
        now = self.turns(self.epoch)
        before = [sum(counts) for counts in zip(*map(self.turns, range(self.epoch)), strict=True)] or [0] * len(now)
        streams = [_from(own, step) for own, step in zip(self.own, before, strict=True)]
        numbers = torch.repeat_interleave(torch.tensor(now))
        random = torch.Generator().manual_seed(self.seed + self.epoch)
        for number in numbers[torch.randperm(len(numbers), generator=random)].tolist():
            yield [int(self.mixed.starts[number]) + row for row in next(streams[number])]
        self.epoch += 1


def _from(own: RandomBatches, step: int) -> Iterator[list[int]]:
    """The batches of a task from a step of its own on, epoch after epoch."""
    epoch, skipped = divmod(step, len(own))
    while True:
        own.set_epoch(epoch)
        yield from list(own)[skipped:]
        epoch, skipped = epoch + 1, 0
