"""Rows of a source on disk, memory-mapped, each knowing where it came from."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warmstart.data import cache as store
from warmstart.data.arrow_files import arrow_schema, batches, open_written, write
from warmstart.data.findings import Findings, from_json
from warmstart.data.joins import TEXTS
from warmstart.data.schema import Schema
from warmstart.data.source import Source, Wanted, unit
from warmstart.data.values import Fault, Values
from warmstart.errors import DataError, nearest
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import describe

__all__ = ["Table", "from_rows", "load", "open_written", "write"]

BATCH = 10_000
NEAR = 32
"""Selected rows that lie within so many batches are read as one stretch, of which the wanted are taken."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a source, memory-mapped; knows where each row came from.

    Attributes:
        rows: A `datasets.Dataset` of the schema's columns that are present, `file` and `line`.
        files: The source's files, to which the column `file` points.
        fingerprint: SHA-256 over the content and all that affects its reading.
        units: What stands before a row's number, per file: nothing for lines, `row ` for rows.
        documents: The collection from which the rows name their documents, where they do so by id.
    """

    rows: Any
    files: tuple[str, ...]
    fingerprint: str
    units: tuple[str, ...]
    documents: Table | None = None
    _whole: Any = None
    _indices: Indices | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, index: int) -> str:
        """Where a row came from, such as `train.csv:17`."""
        file, line = self.place(index)
        return f"{file}:{self.unit(file)}{line}"

    def place(self, index: int) -> tuple[str, int]:
        """The file a row came from, and its line (or row number) there."""
        row = self.rows.select_columns(["file", "line"])[int(index)]
        return self.files[row["file"]], row["line"]

    def unit(self, file: str) -> str:
        """What stands before the numbers of a file's rows."""
        return self.units[self.files.index(file)]

    def column(self, name: str) -> Iterator[Any]:
        """Give a column's values one by one, loading no other column and only a batch at a time."""
        for (chunk,) in self.arrays([name]):
            yield from chunk.to_pylist()

    def arrays(self, names: Sequence[str], size: int = BATCH) -> Iterator[tuple[Any, ...]]:
        """Give the columns as Arrow arrays, a batch at a time."""
        for name in names:
            if name not in self.rows.column_names:
                raise DataError(
                    f"{self.files[0]}: no column {name!r}; {nearest(name, self.rows.column_names)}", "column-missing"
                )
        for batch in self._batches(list(dict.fromkeys(names)), size):
            yield tuple(batch.column(name).combine_chunks() for name in names)

    def chunks(self, size: int) -> Iterator[dict[str, list[Any]]]:
        """Give all columns as plain lists, `size` rows at a time."""
        names = [name for name in self.rows.column_names if name not in {"file", "line"}]
        for arrays in self.arrays(names, size):
            yield {name: array.to_pylist() for name, array in zip(names, arrays, strict=True)}

    def _batches(self, names: list[str], size: int) -> Iterator[Any]:
        """Give Arrow tables of these columns; `datasets` gathers selected rows one by one, which is slow."""
        if self._indices is None:
            yield from self.rows.select_columns(names).with_format("arrow").iter(batch_size=size)
            return
        whole = self._whole.select_columns(names).with_format("arrow")
        for start in range(0, len(self._indices), size):
            chosen = self._indices[start : start + size]
            low, high = int(chosen.min()), int(chosen.max()) + 1
            if high - low <= NEAR * size:
                yield whole[low:high].take(pa.array(chosen - low))
            else:
                yield whole[chosen]

    def select(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Table:
        """Give the table of these rows, in this order; nothing is copied but the indices."""
        array = np.asarray(indices, dtype=np.int64)
        if len(array) and (array.min() < 0 or array.max() >= len(self)):
            raise IndexError(f"rows {array.min()} to {array.max()} of a table of {len(self)} rows")
        digest = hashlib.sha256(self.fingerprint.encode() + array.tobytes()).hexdigest()
        whole = self.rows if self._whole is None else self._whole
        kept = array if self._indices is None else self._indices[array]
        return replace(self, rows=whole.select(kept), fingerprint=digest, _whole=whole, _indices=kept)


def load(
    source: Source,
    schema: Schema,
    cache: Path,
    findings: Findings,
    *,
    drop_unlabelled: bool = False,
    progress: Progress = silent,
) -> Table:
    """Read a source once into `cache` and open it memory-mapped; a second call reads nothing again.

    The findings of the first reading are told again on every later one.
    """
    key, rows, manifest = store.open_or_build(source, schema, cache, findings, drop_unlabelled, progress)
    # The same content may now have other names: a finding speaks of the file as it is called today.
    names = dict(zip(manifest["source"], source.files, strict=True))
    findings.extend(replace(item, file=names.get(item.file, item.file)) for item in from_json(manifest["findings"]))
    documents = source.documents
    beside = None if documents is None else load(documents, TEXTS, cache, findings, progress=progress)
    return Table(rows, source.files, key, tuple(unit(file, source) for file in source.files), beside)


def extended(table: Table, rows: Sequence[int], columns: Mapping[str, list[Any]], path: Path) -> Table:
    """Give some of a table's rows with further columns, stored at `path`; they know where they came from.

    Args:
        rows: Ascending numbers of rows.
        columns: A value for each of those rows.
    """
    chosen = table.select(rows)
    names = chosen.rows.column_names

    def parts() -> Iterator[dict[str, list[Any]]]:
        start = 0
        for arrays in chosen.arrays(names, size=1000):
            end = start + len(arrays[0])
            own = {name: array.to_pylist() for name, array in zip(names, arrays, strict=True)}
            yield {**own, **{name: values[start:end] for name, values in columns.items()}}
            start = end

    data = write(parts(), path, _extended_schema(chosen, columns))
    return Table(data, table.files, describe(path)["sha256"], table.units, table.documents)


def _extended_schema(table: Table, columns: Mapping[str, list[Any]]) -> Any:
    """The table's Arrow schema with further columns of lists of texts."""
    own = table.rows.features.arrow_schema
    return pa.schema(
        [*((field.name, field.type) for field in own), *((name, pa.list_(pa.string())) for name in columns)]
    )


def from_rows(rows: Iterable[Mapping[str, Any]], schema: Schema, folder: Path, name: str = "memory") -> Table:
    """Store rows handed over in Python, checked as a file's are; row 1 says which optional columns exist."""
    columns: list[str] = []

    def checked() -> Iterator[dict[str, Any]]:
        values: Values | None = None
        for number, row in enumerate(rows, 1):
            if values is None:
                columns.extend(column.name for column in schema if column.required or column.name in row)
                values = Values([Wanted(column, column.name) for column in schema if column.name in columns], None)
                defaults.update(schema.defaults(columns))
            try:
                found = _check_row(row, columns, values)
                if wrong := schema.check(found) if schema.check else None:
                    raise Fault(wrong[1], wrong[0])
                yield {**found, **defaults, "file": 0, "line": number}
            except Fault as fault:
                raise DataError(f"{name}:row {number}: {fault}", fault.kind) from None

    defaults: dict[str, int] = {}
    stream = checked()
    first = next(stream, None)
    if first is None:
        raise DataError(f"{name}: no rows. Expected at least one.", "no-rows")
    names = [*columns, *defaults]
    ordered = [*names, "file", "line"]
    path = folder / "rows.arrow"
    data = write(batches(itertools.chain([first], stream), ordered, schema.texts), path, arrow_schema(schema, names))
    return Table(data, (name,), describe(path)["sha256"], ("row ",))


def _check_row(row: Mapping[str, Any], columns: list[str], values: Values) -> dict[str, Any]:
    for key in row:
        if key not in columns:
            raise Fault(f"holds {key!r}, which is not asked for; {nearest(str(key), columns)}", "column-unknown")
    for column in columns:
        if column not in row:
            raise Fault(f"has no {column!r}. Expected {', '.join(map(repr, columns))} in every row.", "column-missing")
    result, missing = values.row([_plain(row[column]) for column in columns])
    if missing:
        raise Fault(
            f"{missing!r} is missing. Expected an answer in every row: fill it in or leave the row out.",
            "answer-missing",
        )
    return result


def _plain(value: Any) -> Any:
    """Give a numpy scalar or array as the Python value it stands for."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
