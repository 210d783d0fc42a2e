"""A column of numbers that a model computes once for each encoded row, stored with the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warmstart.data.arrow_files import open_arrow, write_arrow
from warmstart.inference.batching import group_by_length
from warmstart.runtime.progress import Bar
from warmstart.tasks.base import Feature

if TYPE_CHECKING:
    from datasets import Dataset

Vector: TypeAlias = NDArray[np.float32]
_NOTHING: Vector = np.empty(0, dtype=np.float32)


def write_column(
    rows: Dataset,
    path: Path,
    name: str,
    compute: Callable[[list[Feature]], list[Vector]],
    chunk: int,
    progress: AbstractContextManager[Bar],
) -> None:
    """Write the rows with a further column, a flat array for each row.

    Args:
        compute: Gives the arrays of some rows of similar length.
        chunk: Rows read ahead, so that those of similar length can share a batch.
        progress: A bar of so many rows.
    """
    schema = rows.features.arrow_schema.remove_metadata()
    added = pa.field(name, pa.large_list(pa.float32()))
    with progress as bar:

        def batches() -> Iterator[dict[str, pa.Array]]:
            for some in rows.with_format("arrow").iter(batch_size=chunk):
                columns = {column: some.column(column).combine_chunks() for column in some.column_names}
                plain = {column: values.to_pylist() for column, values in columns.items()}
                features: list[Feature] = [
                    cast("Feature", dict(zip(plain, values, strict=True)))
                    for values in zip(*plain.values(), strict=True)
                ]
                arrays: list[Vector] = [_NOTHING] * len(features)
                for chosen in group_by_length(features):
                    for index, array in zip(chosen, compute([features[index] for index in chosen]), strict=True):
                        arrays[index] = array
                    bar.advance(len(chosen))
                yield {**columns, name: _column(arrays)}

        write_arrow(batches(), path, schema.append(added))


def open_column(path: Path, name: str) -> Dataset:
    """The rows that `write_column` wrote, memory-mapped; the column as arrays, not as lists of Python numbers."""
    return open_arrow(path).with_format("numpy", columns=[name], output_all_columns=True)


def _column(arrays: list[Vector]) -> pa.Array:
    ends = np.cumsum([0, *map(len, arrays)])
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pa.array(np.concatenate(arrays)))
