"""Rows passed in Python: a data frame, a `datasets.Dataset`, a list of dicts, or texts and labels, stored as Parquet.

From there on they are a file like any other: read in pieces, checked by row, and read again when a run resumes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warmstart.errors import DataError, RecipeError
from warmstart.storage.artifacts import checksum
from warmstart.storage.files import atomic_file, move_file
from warmstart.storage.folders import make_folder

BATCH = 10_000


def is_frame(data: object) -> bool:
    """Whether data is rows, and not the name of a file or several."""
    if isinstance(data, str | Path) or type(data) is dict:  # a mapping says how a file is read
        return False
    return not (isinstance(data, list) and data and all(isinstance(item, str | Path) for item in data))


def store_frame(data: object, part: str, folder: Path) -> str:
    """Write rows to a Parquet file that is named by its content, and return its path.

    Args:
        part: What the rows are, as `train`, for the name and for messages.
    """
    make_folder(folder)
    written = folder / f"{part}-{uuid.uuid4().hex}.parquet"
    with atomic_file(written) as path:
        writer: pq.ParquetWriter | None = None
        for batch in _batches(data, part):
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_table(batch)
        if writer is None:
            raise DataError(f"{part}: no rows. Expected at least one.", "no-rows")
        writer.close()
    target = folder / f"{part}-{checksum(written)['sha256'][:16]}.parquet"
    move_file(written, target)
    return str(target)


def _batches(data: object, part: str) -> Iterator[pa.Table]:
    """The rows as Arrow tables of one schema."""
    library = type(data).__module__.partition(".")[0]
    try:
        if library == "datasets":
            yield from _dataset(data)
        elif library == "polars":
            yield data.to_arrow()  # type: ignore[attr-defined]
        elif library == "pandas":
            yield pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None)
        elif isinstance(data, tuple) and len(data) == 2:
            yield _texts_and_labels(*data, part)
        elif isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
            names = list(dict.fromkeys(name for row in data for name in row))
            if names:
                yield pa.table({name: [row.get(name) for row in data] for name in names})
        else:
            raise RecipeError(
                f"{part}: found {type(data).__name__}, expected a file, a pandas or Polars data frame, a "
                "datasets.Dataset, a list of dicts, or a pair (texts, labels)"
            )
    except (pa.ArrowException, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        problem = f"{part}: a column has values of several types ({reason}). Convert it to text first."
        raise DataError(problem, "column-types") from None


def _texts_and_labels(texts: Sequence[object], labels: Sequence[object], part: str) -> pa.Table:
    if len(texts) != len(labels):
        problem = f"{part}: found {len(texts):,} texts and {len(labels):,} labels; expected as many of each"
        raise DataError(problem, "answer-missing")
    return pa.table({"text": list(texts), "label": list(labels)})


def _dataset(data: object) -> Iterator[pa.Table]:
    """A data set in pieces; a class is written by its name, as it is where a file of the Hub is read."""
    import datasets

    if not isinstance(data, datasets.Dataset):
        splits = f" with the splits {', '.join(data)}" if isinstance(data, Mapping) else ""
        raise RecipeError(f"found a {type(data).__name__}{splits}; pass one split, as data['train']")
    names = {name: kind.names for name, kind in data.features.items() if isinstance(kind, datasets.ClassLabel)}
    for batch in data.with_format("arrow").iter(batch_size=BATCH):
        table = pa.table(batch).replace_schema_metadata(None)
        for name, classes in names.items():
            values = [None if value in (None, -1) else classes[value] for value in table.column(name).to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
        yield table
