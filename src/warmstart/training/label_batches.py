"""Batches by label: every row has company of its own label, as a contrastive loss needs it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from warmstart.errors import DataError, RecipeError
from warmstart.training.batches import RandomBatchSampler, Rows


class LabelPairBatchSampler(RandomBatchSampler):
    """Batches in which every row has another row of its label, where there is one, and as many labels as possible.

    The rows of each label are shuffled and paired; of an odd number, three go together, and a label's only row stays
    alone. The pairs are dealt out to the batches like cards, those of a label one after the other: they come into as
    many batches as possible. The larger groups are dealt first, so batches differ by three rows at most.

    Args:
        labels: The label of each row.
        batch_size: The most rows of a batch, on each process; at least 3.
        seed: Determines everything random, together with the epoch.
        num_processes: How many processes train together; each batch is that of one process, with whole pairs.
        process_index: Which of them this is.
    """

    def __init__(
        self,
        labels: Sequence[int] | npt.NDArray[np.int64],
        batch_size: int = 32,
        *,
        seed: int = 0,
        num_processes: int = 1,
        process_index: int = 0,
    ) -> None:
        super().__init__(len(labels), batch_size, seed=seed, num_processes=num_processes, process_index=process_index)
        ids = np.asarray(labels)
        counts = np.unique(ids, return_counts=True)[1]
        by_label = torch.from_numpy(ids.argsort(kind="stable"))
        self.label_rows = by_label.tensor_split(counts.cumsum()[:-1].tolist())
        self.num_batches = self._count_batches(counts, max(batch_size, 3))

    def _count_batches(self, counts: npt.NDArray[np.int64], most: int) -> int:
        """The fewest batches of all processes without one that is too large; the same in every epoch."""
        threes, alone = int(((counts > 1) & (counts % 2 == 1)).sum()), int((counts == 1).sum())
        sizes = np.repeat([3, 2, 1], [threes, int((counts // 2).sum()) - threes, alone])
        processes = self.num_processes
        if len(sizes) < processes:
            raise DataError(
                f"{len(sizes)} pairs of rows of one label cannot be shared by {processes} processes; "
                f"start at most {len(sizes)}"
            )
        number = processes * math.ceil(self.num_rows / (most * processes))
        while number < len(sizes) and sizes[::number].sum() > most:  # the first batch is the largest
            number += processes
        return min(number, len(sizes) // processes * processes)

    def __len__(self) -> int:
        return self.num_batches // self.num_processes

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._batches(torch.Generator().manual_seed(self.seed + self.epoch))
        yield from batches[self.process_index :: self.num_processes]
        self.epoch += 1

    def _batches(self, generator: torch.Generator) -> list[list[int]]:
        """The batches of an epoch, those of each step one after the other."""
        groups: list[torch.Tensor] = []
        for label in torch.randperm(len(self.label_rows), generator=generator).tolist():
            rows = self.label_rows[label]
            rows = rows[torch.randperm(len(rows), generator=generator)]
            groups += rows.tensor_split(list(range(2, len(rows) - 1, 2)))
        groups.sort(key=len, reverse=True)
        order = torch.randperm(self.num_batches, generator=generator).tolist()
        return [torch.cat(groups[number :: self.num_batches]).tolist() for number in order]


def row_labels(rows: Rows) -> npt.NDArray[np.int64]:
    """The id of each row's label.

    Args:
        rows: A `datasets.Dataset`, of which only this column is read; or any sequence of mappings.
    """
    if not isinstance(rows, datasets.Dataset):
        return np.array([row["labels"] for row in rows], dtype=np.int64)
    if "labels" not in rows.column_names or not pa.types.is_integer(rows.features.arrow_schema.field("labels").type):
        raise RecipeError(
            "training.loss: supervised-contrastive needs rows with one label each; set training.loss: task"
        )
    labels: npt.NDArray[np.int64] = rows.select_columns(["labels"]).with_format("arrow")[:]["labels"].to_numpy()
    return labels
