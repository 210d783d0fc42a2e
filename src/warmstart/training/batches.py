"""Batches: the rows of each optimizer step, in random order, or grouped by length to reduce padding.

The samplers here are batch samplers of PyTorch and work with any `DataLoader`. The batches of an epoch depend on the
seed and the epoch alone, so training can resume at any step; every row is in exactly one of them. With several
processes, each sampler gives its process's part of every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from warmstart.errors import DataError, RecipeError
from warmstart.storage.json_files import JsonObject

BUCKET_STEPS = 100
"""Steps whose rows are sorted together: more leave less padding, fewer make batches more random."""

Lengths = Sequence[int] | npt.NDArray[np.int64]
Rows: TypeAlias = "datasets.Dataset | Sequence[JsonObject]"


class RandomBatchSampler(Sampler[list[int]]):
    """Batches of rows in random order: those of a `DataLoader` with `shuffle=True`, divided between processes.

    A step with fewer rows comes last. If it has fewer rows than there are processes, it is joined to the one before,
    since no process may be without a row. The parts of a step then differ by one row at most.

    Args:
        num_rows: How many rows there are.
        batch_size: Rows of a step, on each process.
        seed: Determines the order, together with the epoch.
        num_processes: How many processes share each step.
        process_index: Which of them this is.
    """

    def __init__(
        self, num_rows: int, batch_size: int = 32, *, seed: int = 0, num_processes: int = 1, process_index: int = 0
    ) -> None:
        if num_rows < num_processes:
            raise DataError(
                f"{num_rows} rows cannot be shared by {num_processes} processes; start at most {max(num_rows, 1)}"
            )
        self.num_rows = num_rows
        self.step_size = batch_size * num_processes
        self.seed = seed
        self.num_processes = num_processes
        self.process_index = process_index
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose batches come next; if never called, each pass is followed by the next epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        whole, left = divmod(self.num_rows, self.step_size)
        return max(1, whole + (left >= self.num_processes))

    def __iter__(self) -> Iterator[list[int]]:
        for step in self._steps(torch.Generator().manual_seed(self.seed + self.epoch)):
            yield step[self.process_index :: self.num_processes].tolist()
        self.epoch += 1

    def _steps(self, generator: torch.Generator) -> list[torch.Tensor]:
        """The rows of each step, over all processes."""
        order = torch.randperm(self.num_rows, generator=generator)
        ends = [self.step_size * (number + 1) for number in range(len(self) - 1)]
        return list(torch.tensor_split(order, ends))


class LengthGroupedBatchSampler(RandomBatchSampler):
    """Batches of rows of similar length, in random order, so that there is little padding.

    With `batch_size`, every step has the same number of rows: rows are shuffled, sorted by length within buckets of
    `BUCKET_STEPS` steps, divided into steps, and the steps shuffled. A shorter last step is not sorted: its few rows
    have a larger weight, and must not always be the longest.

    With `batch_tokens`, a step has as many rows as fit into this number of tokens on each process, including padding:
    long rows come in smaller steps. All rows are sorted, equal lengths in random order, and divided from the longest
    down, starting at a random position; the steps are shuffled. Every epoch has the same number of steps, which
    schedules and resuming depend on.

    The gradient, with `batch_tokens`: if each step took the mean over its own rows, a row of a small step would weigh
    more, so long texts would weigh more than short ones. To give all rows the same weight, as with steps of one size,
    divide the sum over a step's rows by the same number in every step, `mean_rows`. `warmstart fit` does that; in a
    training loop of your own, multiply a step's mean loss by its number of rows over `mean_rows`.

    Args:
        lengths: Tokens of each row, as `row_lengths` gives them.
        batch_size: Rows of a step, on each process.
        batch_tokens: Instead of `batch_size`: the most tokens of a step on each process, padding included.
        seed: Determines everything random, together with the epoch.
        num_processes: How many processes share each step, in rows of similar length.
        process_index: Which of them this is.
    """

    def __init__(
        self,
        lengths: Lengths,
        batch_size: int = 32,
        *,
        batch_tokens: int | None = None,
        seed: int = 0,
        num_processes: int = 1,
        process_index: int = 0,
    ) -> None:
        super().__init__(len(lengths), batch_size, seed=seed, num_processes=num_processes, process_index=process_index)
        self.lengths = torch.as_tensor(np.asarray(lengths, dtype=np.int64))
        self.batch_tokens = batch_tokens
        if batch_tokens is None:
            return
        # Rows are grouped by as many as there are processes, so that each process has one; this is how many groups fit
        # a step, by the first row of each. The few rows left over go with the shortest.
        end = self.num_rows - self.num_rows % num_processes
        longest = self.lengths.sort(descending=True).values[:end:num_processes]
        if longest[0] > batch_tokens:
            raise RecipeError(
                f"training.batch_tokens: found {batch_tokens}, but a row has {longest[0]} tokens; "
                "set at least that, or a smaller window.max_tokens"
            )
        self.fits = (batch_tokens // longest.clamp(min=1)).tolist()
        # One step more than the fewest: a random first cut may need it, so there always is one.
        self.count = min(len(self._cuts(self.fits[0])) + 1, len(self.fits))

    @property
    def mean_rows(self) -> float:
        """Rows of a step on one process, on average."""
        return self.num_rows / len(self) / self.num_processes

    def __len__(self) -> int:
        return super().__len__() if self.batch_tokens is None else self.count

    def _steps(self, generator: torch.Generator) -> list[torch.Tensor]:
        steps, last = (self._by_tokens(generator), []) if self.batch_tokens else self._by_rows(generator)
        return [steps[index] for index in torch.randperm(len(steps), generator=generator)] + last

    def _by_rows(self, generator: torch.Generator) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Steps of one size, and a last one of another."""
        steps = super()._steps(generator)
        whole = len(steps) - (len(steps[-1]) != self.step_size)
        sorted_steps: list[torch.Tensor] = []
        for start in range(0, whole, BUCKET_STEPS):
            bucket = torch.cat(steps[start : min(start + BUCKET_STEPS, whole)])
            bucket = bucket[self.lengths[bucket].argsort(stable=True)]
            sorted_steps += bucket.tensor_split(len(bucket) // self.step_size)
        return sorted_steps, steps[whole:]

    def _by_tokens(self, generator: torch.Generator) -> list[torch.Tensor]:
        """Steps that fit the token budget, as many in every epoch."""
        shuffled = torch.randperm(self.num_rows, generator=generator)
        order = shuffled[self.lengths[shuffled].argsort(stable=True, descending=True)]
        cuts = self._cuts(int(torch.randint(1, self.fits[0] + 1, (), generator=generator)))
        if len(cuts) < self.count:
            starts = [0, *cuts[:-1]]
            largest = max(range(len(cuts)), key=lambda number: cuts[number] - starts[number])
            cuts.insert(largest, (starts[largest] + cuts[largest]) // 2)
        return list(torch.tensor_split(order, [self.num_processes * cut for cut in cuts[:-1]]))

    def _cuts(self, first: int) -> list[int]:
        """Where each step ends among rows sorted from the longest down, the first after `first` of them.

        Wherever the first cut is, there are as many steps as for the latest first cut, or one more: no cut comes later
        than the corresponding one there, nor earlier than the one before that.
        """
        cuts = [min(first, len(self.fits))]
        while cuts[-1] < len(self.fits):
            cuts.append(min(cuts[-1] + self.fits[cuts[-1]], len(self.fits)))
        return cuts


class EpochBatchSampler(Sampler[list[tuple[int, int]]]):
    """Batches of pairs of epoch and row number: the workers of a data loader do not know the epoch otherwise."""

    def __init__(self, batches: RandomBatchSampler) -> None:
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose batches come next."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch = self.batches.epoch
        for batch in self.batches:
            yield [(epoch, row) for row in batch]


class EpochDataset(Dataset[JsonObject]):
    """Rows by epoch and number, each with its `epoch`."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: tuple[int, int]) -> JsonObject:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> list[JsonObject]:
        rows = get_rows(self.rows, [number for _, number in keys])
        return [{**row, "epoch": epoch} for row, (epoch, _) in zip(rows, keys, strict=True)]


class EpochDataLoader(DataLoader[JsonObject]):
    """A `DataLoader` over such batches with the `set_epoch` that a Trainer calls, as when it resumes."""

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose batches come next."""
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


def get_rows(rows: Rows, numbers: Sequence[int]) -> list[JsonObject]:
    """Several rows by their numbers, all at once where that is possible."""
    if hasattr(rows, "__getitems__"):
        batch: list[JsonObject] = rows.__getitems__(numbers)
        return batch
    return [rows[number] for number in numbers]


def row_lengths(rows: Rows, column: str = "input_ids") -> npt.NDArray[np.int64]:
    """Tokens of each row; of a row in slices, their number times the longest, to which all are padded.

    Args:
        rows: A `datasets.Dataset`, of which only this column is read, in place; or any sequence of mappings.
    """
    slices, longest = row_shapes(rows, column)
    return slices * longest


def grouping_lengths(rows: Rows) -> npt.NDArray[np.int64]:
    """The length by which each row is grouped with others: its tokens, or its column `length` where there is one.

    Args:
        rows: As in `row_lengths`.
    """
    if isinstance(rows, datasets.Dataset):
        if "length" not in rows.column_names:
            return row_lengths(rows)
        lengths: npt.NDArray[np.int64] = rows.select_columns(["length"]).with_format("arrow")[:]["length"].to_numpy()
        return lengths
    if "length" not in next(iter(rows), ()):
        return row_lengths(rows)
    return np.array([row["length"] for row in rows], dtype=np.int64)


def row_shapes(rows: Rows, column: str = "input_ids") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many lists of tokens each row has, one where it is not in slices, and the length of the longest of them.

    Args:
        rows: As in `row_lengths`.
    """
    if not isinstance(rows, datasets.Dataset):
        shapes = np.array([_shape(row[column]) for row in rows], dtype=np.int64).reshape(-1, 2)
        return shapes[:, 0], shapes[:, 1]
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


def _shape(ids: Sequence[Any]) -> tuple[int, int]:
    return (len(ids), max(map(len, ids))) if len(ids) and hasattr(ids[0], "__len__") else (1, len(ids))
