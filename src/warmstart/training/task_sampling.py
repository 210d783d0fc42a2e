"""Rows of several tasks in one training: how many steps each task has, and batches of one task each.

A task with n rows gets a share of the steps of n^α over the sum of all tasks, at least one step per epoch: α = 1 is
`proportional`, ½ `square-root`, 0 `uniform`, 1/T `temperature` ("Massively Multilingual Neural Machine Translation in
the Wild", Arivazhagan et al. 2019, §4.2), and `annealed` goes from 1 in the first epoch to 0.2 in the last: α = 1 −
0.8·(e − 1)/(E − 1) in epoch e of E ("BERT and PALs", Stickland and Murray 2019, §3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from warmstart.errors import RecipeError, nearest
from warmstart.storage.json_files import JsonObject
from warmstart.training.batches import (
    LengthGroupedBatchSampler,
    RandomBatchSampler,
    Rows,
    get_rows,
    grouping_lengths,
)

SAMPLINGS = ("proportional", "square-root", "temperature", "uniform", "annealed")
SEED_STRIDE = 1_000_003
"""Between the seeds of two tasks, so that tasks with as many rows are not shuffled alike."""


def task_shares(
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
    weights = [size**power for size in sizes]
    return [weight / sum(weights) for weight in weights]


def steps_per_task(shares: Sequence[float], steps: int) -> list[int]:
    """How many of `steps` each task has: its share rounded by largest remainder, and at least one."""
    exact = [share * steps for share in shares]
    counts = [max(1, int(count)) for count in exact]
    while sum(counts) != steps:
        change = 1 if sum(counts) < steps else -1
        candidates = [index for index in range(len(counts)) if change > 0 or counts[index] > 1]
        counts[max(candidates, key=lambda index: change * (exact[index] - counts[index]))] += change
    return counts


class MultiTaskRows:
    """The encoded rows of several tasks as one sequence; each has the name of its task as `task`.

    The number of a row, as messages use it, includes its task too: see `locate`.

    Args:
        parts: The encoded rows of each task, by its name.
        sampling: One of `SAMPLINGS`.
        temperature: T of `temperature`.
    """

    def __init__(self, parts: Mapping[str, Rows], sampling: str = "square-root", temperature: float = 1.0) -> None:
        self.parts = dict(parts)
        self.names = list(parts)
        self.sampling = sampling
        self.temperature = temperature
        self.starts = np.cumsum([0, *(len(rows) for rows in parts.values())])
        task_shares([1], sampling)  # refuses an unknown sampling

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> JsonObject:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[JsonObject]:
        """Several rows, all of one task, as a `DataLoader` gets those of a batch."""
        number = int(np.searchsorted(self.starts, indices[0], side="right")) - 1
        name, count = self.names[number], len(self.names)
        rows = get_rows(self.parts[name], [int(index - self.starts[number]) for index in indices])
        return [{**row, "task": name, "row": row["row"] * count + number} for row in rows]

    def locate(self, row: int) -> tuple[str, int]:
        """The task of a row's number, and the number in its own data."""
        return self.names[row % len(self.names)], row // len(self.names)


class MultiTaskBatchSampler(RandomBatchSampler):
    """Batches of one task each; an epoch has as many steps as all rows together require.

    Within a task rows come as by `RandomBatchSampler` or `LengthGroupedBatchSampler`: each once before any comes again,
    in a new order each time, continued from one epoch to the next. All depends on the seed and the epoch alone.

    Args:
        rows: The rows of all tasks.
        batch_size: Rows of a step, on each process.
        by_length: Whether batches are grouped by length.
        epochs: How many epochs there will be, for `annealed`; may be set later.
        seed: Determines everything random, together with the epoch.
        num_processes: How many processes share each step; all have the same task in it.
        process_index: Which of them this is.
    """

    def __init__(
        self,
        rows: MultiTaskRows,
        batch_size: int = 32,
        *,
        by_length: bool = True,
        epochs: float = 1,
        seed: int = 0,
        num_processes: int = 1,
        process_index: int = 0,
    ) -> None:
        process = {"num_processes": num_processes, "process_index": process_index}
        super().__init__(len(rows), batch_size, seed=seed, **process)
        self.rows = rows
        self.epochs = epochs
        self.samplers: list[RandomBatchSampler] = []
        for number, part in enumerate(rows.parts.values(), 1):
            options = {"seed": seed + SEED_STRIDE * number, **process}
            self.samplers.append(
                LengthGroupedBatchSampler(grouping_lengths(part), batch_size, **options)
                if by_length
                else RandomBatchSampler(len(part), batch_size, **options)
            )

    def __len__(self) -> int:
        return sum(map(len, self.samplers))

    def steps_per_task(self, epoch: int) -> list[int]:
        """How many steps of an epoch each task has."""
        sizes = [len(part) for part in self.rows.parts.values()]
        shares = task_shares(sizes, self.rows.sampling, self.rows.temperature, epoch, self.epochs)
        return steps_per_task(shares, len(self))

    def __iter__(self) -> Iterator[list[int]]:
        now = self.steps_per_task(self.epoch)
        earlier = map(self.steps_per_task, range(self.epoch))
        before = [sum(counts) for counts in zip(*earlier, strict=True)] or [0] * len(now)
        streams = [_batches_from(sampler, step) for sampler, step in zip(self.samplers, before, strict=True)]
        tasks = torch.repeat_interleave(torch.tensor(now))
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        for task in tasks[torch.randperm(len(tasks), generator=generator)].tolist():
            yield [int(self.rows.starts[task]) + row for row in next(streams[task])]
        self.epoch += 1


def _batches_from(sampler: RandomBatchSampler, step: int) -> Iterator[list[int]]:
    """The batches of a task from a step of its own on, epoch after epoch."""
    epoch, skipped = divmod(step, len(sampler))
    while True:
        sampler.set_epoch(epoch)
        yield from list(sampler)[skipped:]
        epoch, skipped = epoch + 1, 0
