"""Batches: which rows an optimizer step learns from, in random order or grouped by length so that little is padding.

The samplers here are batch samplers of PyTorch and work with any `DataLoader`. The batches of an epoch depend on the
seed and the epoch alone, so a training can go on from any step; every row is in exactly one of them. In a training of
several processes each is told its number and gives that process's part of every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from warmstart.errors import DataError, RecipeError

BUCKET = 100
"""Steps whose rows are sorted together: more leave less padding, fewer more chance in who meets whom."""

Lengths = Sequence[int] | npt.NDArray[np.int64]


class RandomBatches(Sampler[list[int]]):
    """Batches of rows in random order: what a `DataLoader` with `shuffle=True` gives, cut into processes' parts.

    A last step with fewer rows comes last. Where it has fewer than there are processes, it is joined to the one
    before, as no process may be without a row. The parts of a step then differ by one row at most.

    Args:
        rows: How many rows there are.
        batch: Rows a step learns from, on each process.
        seed: Together with the epoch, decides the order.
        processes: How many processes share each step.
        process: Which of them this is.
    """

    def __init__(self, rows: int, batch: int = 32, *, seed: int = 0, processes: int = 1, process: int = 0) -> None:
        if rows < processes:
            raise DataError(f"{rows} rows cannot be shared by {processes} processes; start at most {max(rows, 1)}")
        self.rows = rows
        self.size = batch * processes
        self.seed = seed
        self.processes = processes
        self.process = process
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next; without, each whole pass is followed by the next epoch's."""
        self.epoch = epoch

    def __len__(self) -> int:
        whole, left = divmod(self.rows, self.size)
        return max(1, whole + (left >= self.processes))

    def __iter__(self) -> Iterator[list[int]]:
        for step in self._steps(torch.Generator().manual_seed(self.seed + self.epoch)):
            yield step[self.process :: self.processes].tolist()
        self.epoch += 1

    def _steps(self, random: torch.Generator) -> list[torch.Tensor]:
        """The rows of each step, over all processes."""
        order = torch.randperm(self.rows, generator=random)
        ends = [self.size * (number + 1) for number in range(len(self) - 1)]
        return list(torch.tensor_split(order, ends))


class LengthBatches(RandomBatches):
    """Batches of rows of like length, in random order, so that little of a batch is padding.

    With `batch`, every step has the same number of rows: rows are shuffled, sorted by length within stretches of
    `BUCKET` steps, cut into steps, and the steps shuffled. A shorter last step is left out of the sorting: its few rows
    weigh more than others, and must not always be the longest.

    With `tokens`, a step has as many rows as fit so many tokens on each process, padding counted: long rows come in
    smaller steps. All rows are sorted, equal lengths by chance, and cut from the longest down, the first cut at a
    random place; the steps are shuffled. Every epoch has the same number of them, which schedules and resuming rest on.

    The gradient, with `tokens`: if each step takes the mean over its own rows, a row counts for more in a step of few,
    so long texts for more than short ones. To learn from the mean over all rows, as steps of one size do, the sum over
    a step's rows is to be divided by the same number in every step, `mean_rows`. `warmstart fit` does that; in a loop
    of your own, multiply a step's mean loss by its number of rows over `mean_rows`.

    Args:
        lengths: Tokens of each row; `lengths_of` finds them.
        batch: Rows a step learns from, on each process.
        tokens: Instead of `batch`: the most tokens a step may have on each process, padding counted.
        seed: Together with the epoch, decides everything random.
        processes: How many processes share each step, in rows of like length.
        process: Which of them this is.
    """

    def __init__(
        self,
        lengths: Lengths,
        batch: int = 32,
        *,
        tokens: int | None = None,
        seed: int = 0,
        processes: int = 1,
        process: int = 0,
    ) -> None:
        super().__init__(len(lengths), batch, seed=seed, processes=processes, process=process)
        self.lengths = torch.as_tensor(np.asarray(lengths, dtype=np.int64))
        self.tokens = tokens
        if tokens is None:
            return
        # Rows are taken as many at a time as there are processes, so that each has one; this is how many of the first
        # of each fit a step. The few left over go with the shortest.
        longest = self.lengths.sort(descending=True).values[: self.rows - self.rows % processes : processes]
        if longest[0] > tokens:
            raise RecipeError(
                f"training.batch_tokens: found {tokens}, but a row has {longest[0]} tokens; "
                "give at least that, or a smaller window.max_tokens"
            )
        self.fits = (tokens // longest.clamp(min=1)).tolist()
        # One step more than the fewest: a first cut at a random place may need it, so it is always taken.
        self.count = min(len(self._cuts(self.fits[0])) + 1, len(self.fits))

    @property
    def mean_rows(self) -> float:
        """Rows of a step on one process, on average."""
        return self.rows / len(self) / self.processes

    def __len__(self) -> int:
        return super().__len__() if self.tokens is None else self.count

    def _steps(self, random: torch.Generator) -> list[torch.Tensor]:
        steps, last = (self._by_tokens(random), []) if self.tokens else self._by_rows(random)
        return [steps[index] for index in torch.randperm(len(steps), generator=random)] + last

    def _by_rows(self, random: torch.Generator) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Steps of one size, and a last one of another."""
        steps = super()._steps(random)
        whole = len(steps) - (len(steps[-1]) != self.size)
        found: list[torch.Tensor] = []
        for start in range(0, whole, BUCKET):
            bucket = torch.cat(steps[start : min(start + BUCKET, whole)])
            bucket = bucket[self.lengths[bucket].argsort(stable=True)]
            found += bucket.tensor_split(len(bucket) // self.size)
        return found, steps[whole:]

    def _by_tokens(self, random: torch.Generator) -> list[torch.Tensor]:
        """Steps that fit the budget of tokens, as many in every epoch."""
        shuffled = torch.randperm(self.rows, generator=random)
        order = shuffled[self.lengths[shuffled].argsort(stable=True, descending=True)]
        cuts = self._cuts(int(torch.randint(1, self.fits[0] + 1, (), generator=random)))
        if len(cuts) < self.count:
            starts = [0, *cuts[:-1]]
            largest = max(range(len(cuts)), key=lambda number: cuts[number] - starts[number])
            cuts.insert(largest, (starts[largest] + cuts[largest]) // 2)
        return list(torch.tensor_split(order, [self.processes * cut for cut in cuts[:-1]]))

    def _cuts(self, first: int) -> list[int]:
        """Where each step ends among rows sorted from the longest down, the first after `first` of them.

        Wherever the first cut is, there are as many steps as for the latest first cut, or one more: no cut comes later
        than its like there, nor earlier than the one before that.
        """
        cuts = [min(first, len(self.fits))]
        while cuts[-1] < len(self.fits):
            cuts.append(min(cuts[-1] + self.fits[cuts[-1]], len(self.fits)))
        return cuts


class EpochBatches(Sampler[list[tuple[int, int]]]):
    """Batches whose rows are named by epoch and number: a loader's workers cannot know the epoch otherwise."""

    def __init__(self, batches: RandomBatches) -> None:
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch = self.batches.epoch
        for batch in self.batches:
            yield [(epoch, row) for row in batch]


class EpochRows(Dataset[Any]):
    """Rows that are asked for by epoch and number, and say the `epoch` that they were asked for in."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Any]:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        numbers = [number for _, number in keys]
        found = (
            self.rows.__getitems__(numbers)
            if hasattr(self.rows, "__getitems__")
            else [self.rows[number] for number in numbers]
        )
        return [{**row, "epoch": epoch} for row, (epoch, _) in zip(found, keys, strict=True)]


class Loader(DataLoader[Any]):
    """A `DataLoader` over such batches that the Trainer can tell the epoch, as it does when it goes on from a step."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next."""
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


def lengths_of(rows: Any, column: str = "input_ids") -> npt.NDArray[np.int64]:
    """Tokens each row takes up; a row in slices, its number of slices times the longest, to which all are padded.

    Args:
        rows: A `datasets.Dataset`, of which only this column is looked at, in place; or any sequence of mappings.
    """
    slices, longest = shapes_of(rows, column)
    return slices * longest


def grouping_of(rows: Any) -> npt.NDArray[np.int64]:
    """As how long each row is put among others of like length: its tokens, or its `length` where it says one.

    Args:
        rows: As in `lengths_of`.
    """
    plain = not hasattr(rows, "with_format")
    if "length" not in (next(iter(rows), ()) if plain else rows.column_names):
        return lengths_of(rows)
    if plain:
        return np.array([row["length"] for row in rows], dtype=np.int64)
    found: npt.NDArray[np.int64] = rows.select_columns(["length"]).with_format("arrow")[:]["length"].to_numpy()
    return found


def shapes_of(rows: Any, column: str = "input_ids") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many lists of tokens each row has, one where it is not in slices, and how long the longest of them is.

    Args:
        rows: As in `lengths_of`.
    """
    if not hasattr(rows, "with_format"):
        found = np.array([_shape(row[column]) for row in rows], dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]
    slices, longest = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for table in rows.select_columns([column]).with_format("arrow").iter(batch_size=10_000):
        for chunk in table.column(column).chunks:
            lengths = pc.list_value_length(chunk).to_numpy(zero_copy_only=False).astype(np.int64)
            flat = pc.list_flatten(chunk)
            if hasattr(flat.type, "value_type"):
                slices.append(lengths)
                longest.append(np.zeros(len(chunk), dtype=np.int64))
                parents = pc.list_parent_indices(chunk).to_numpy()
                np.maximum.at(longest[-1], parents, pc.list_value_length(flat).to_numpy())
            else:
                slices.append(np.ones_like(lengths))
                longest.append(lengths)
    return np.concatenate(slices), np.concatenate(longest)


def _shape(ids: Any) -> tuple[int, int]:
    return (len(ids), max(map(len, ids))) if len(ids) and hasattr(ids[0], "__len__") else (1, len(ids))
