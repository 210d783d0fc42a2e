"""Rows of a source on disk, memory-mapped, each knowing where it came from."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warmstart.data import row_cache
from warmstart.data.arrow_files import Batch, arrow_schema, column_batches, open_arrow, write_arrow
from warmstart.data.fault_handling import Droppable
from warmstart.data.faults import Fault
from warmstart.data.findings import Findings, from_json
from warmstart.data.joins import TEXT_SCHEMA
from warmstart.data.row_conversion import RowConverter
from warmstart.data.schema import Row, Schema, Value
from warmstart.data.source import FileColumn, Source, row_unit, stored
from warmstart.errors import DataError, Location, nearest
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import checksum

BATCH = 10_000
NEAR = 32
"""Selected rows that span at most this many batches are read as one range, of which the selected are taken."""

Indices = npt.NDArray[np.int64]

CHUNK = 1000
"""Rows that are plain values at a time."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a source, memory-mapped; knows where each row came from.

    Attributes:
        rows: The schema's columns that are present, `file` and `line`.
        files: The source's files, to which the column `file` points.
        fingerprint: SHA-256 over the content and all that affects its reading.
        units: What stands before a row's number in its location, per file: nothing for lines, `row ` for rows.
        documents: The collection in which the rows' documents are, where rows refer to them by id.
    """

    rows: datasets.Dataset
    files: tuple[str, ...]
    fingerprint: str
    units: tuple[str, ...]
    documents: Table | None = None
    _whole: datasets.Dataset | None = None
    _indices: Indices | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def location(self, index: int) -> Location:
        """Where a row came from; `str` of it is such as `train.csv:17`."""
        row = self.rows.select_columns(["file", "line"])[int(index)]
        return Location(self.files[row["file"]], row["line"], self.units[row["file"]])

    def locations(self) -> Iterator[Location]:
        """Where each row came from, in order."""
        for files, lines in self.arrays(["file", "line"]):
            for file, line in zip(files.to_pylist(), lines.to_pylist(), strict=True):
                yield Location(self.files[file], line, self.units[file])

    def column(self, name: str) -> Iterator[Value]:
        """Yield a column's values one by one, loading no other column and only a batch at a time."""
        for (chunk,) in self.arrays([name]):
            yield from chunk.to_pylist()

    def arrays(self, names: Sequence[str], size: int = BATCH) -> Iterator[tuple[pa.Array, ...]]:
        """Yield the columns as Arrow arrays, a batch at a time."""
        for name in names:
            if name not in self.rows.column_names:
                raise DataError(
                    f"no column {name!r}; {nearest(name, self.rows.column_names)}",
                    "column-missing",
                    location=Location(self.files[0]),
                    column=name,
                )
        for batch in self._batches(list(dict.fromkeys(names)), size):
            yield tuple(batch.column(name).combine_chunks() for name in names)

    def chunks(self, size: int) -> Iterator[Batch]:
        """Yield all columns as plain lists, `size` rows at a time."""
        names = [name for name in self.rows.column_names if name not in {"file", "line"}]
        for arrays in self.arrays(names, size):
            yield {name: array.to_pylist() for name, array in zip(names, arrays, strict=True)}

    def dicts(self) -> Iterator[Row]:
        """Yield every row by column name, without where it came from."""
        for chunk in self.chunks(CHUNK):
            for values in zip(*chunk.values(), strict=True):
                yield dict(zip(chunk, values, strict=True))

    def _batches(self, names: list[str], size: int) -> Iterator[pa.Table]:
        """Yield Arrow tables of these columns; `datasets` gathers selected rows one by one, which is slow."""
        if self._indices is None or self._whole is None:
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
        """The table of these rows, in this order; nothing is copied but the indices."""
        array = np.asarray(indices, dtype=np.int64)
        if len(array) and (array.min() < 0 or array.max() >= len(self)):
            raise IndexError(f"rows {array.min()} to {array.max()} of a table of {len(self)} rows")
        digest = hashlib.sha256(self.fingerprint.encode() + array.tobytes()).hexdigest()
        whole = self.rows if self._whole is None else self._whole
        own = array if self._indices is None else self._indices[array]
        return replace(self, rows=whole.select(own), fingerprint=digest, _whole=whole, _indices=own)


def load(
    source: Source,
    schema: Schema,
    cache: Path,
    findings: Findings,
    *,
    drop: Collection[Droppable] = (),
    collect_errors: bool = False,
    progress: Progress = silent,
) -> Table:
    """Read a source once into `cache` and open it memory-mapped; a second call reads nothing again.

    The findings of the first reading are reported again on every later one.

    Args:
        drop: As in `iter_rows`, like `collect_errors`.
    """
    reading = row_cache.Reading(source, schema, frozenset(drop), collect_errors)
    key, rows, manifest = row_cache.open_or_build(reading, cache, findings, progress)
    # The same content may have other names by now: a finding names the file as it is called today.
    names = dict(zip(manifest["source"], source.files, strict=True))
    for finding in from_json(manifest["findings"]):
        file = finding.location.file
        findings.extend([replace(finding, location=replace(finding.location, file=names.get(file, file)))])
    documents = source.documents
    collection = None if documents is None else load(documents, TEXT_SCHEMA, cache, findings, progress=progress)
    return Table(rows, source.files, key, tuple(row_unit(file, source) for file in source.files), collection)


def extended(table: Table, rows: Sequence[int], columns: Mapping[str, list[Value]], path: Path) -> Table:
    """Some of a table's rows with further columns, stored at `path`; each row still knows where it came from.

    Args:
        rows: Ascending numbers of rows.
        columns: A value for each of those rows.
    """
    chosen = table.select(rows)
    names = chosen.rows.column_names

    def parts() -> Iterator[Batch]:
        start = 0
        for arrays in chosen.arrays(names, size=CHUNK):
            end = start + len(arrays[0])
            own = {name: array.to_pylist() for name, array in zip(names, arrays, strict=True)}
            yield {**own, **{name: values[start:end] for name, values in columns.items()}}
            start = end

    data = write_arrow(parts(), path, _extended_schema(chosen, columns))
    return Table(data, table.files, checksum(path)["sha256"], table.units, table.documents)


def joined(
    first: Table,
    second: Table,
    names: Sequence[str],
    path: Path,
    filled: Mapping[str, tuple[str, Callable[[Value], Value]]],
    write: bool = True,
    added: Mapping[str, tuple[pa.DataType, Callable[[Table, Batch], list[Value]]]] | None = None,
) -> Table:
    """The rows of two tables, one after the other, stored at `path`; each row still knows where it came from.

    Args:
        names: The columns to keep.
        filled: Of columns that one of the tables lacks, the column that they follow from, and how.
        write: Whether to write the file, which is there otherwise.
        added: Columns that neither has: the type of each, and what gives its values for some rows of a table.
    """
    added = added or {}

    def parts() -> Iterator[Batch]:
        for rows, before in ((first, 0), (second, len(first.files))):
            own = [name for name in names if name in rows.rows.column_names]
            for arrays in rows.arrays([*own, "file", "line"], size=CHUNK):
                batch: Batch = {
                    name: array.to_pylist() for name, array in zip([*own, "file", "line"], arrays, strict=True)
                }
                more = {name: values(rows, batch) for name, (_, values) in added.items()}
                batch["file"] = [file + before for file in batch["file"]]
                for name in names:
                    if name not in own:
                        source, fill = filled.get(name, (own[0], lambda _: None))
                        batch[name] = [fill(value) for value in batch[source]]
                yield {**{name: batch[name] for name in [*names, "file", "line"]}, **more}

    types = {field.name: field.type for rows in (first, second) for field in rows.rows.features.arrow_schema}
    given = [(name, kind) for name, (kind, _) in added.items()]
    schema = pa.schema([*((name, types[name]) for name in [*names, "file", "line"]), *given])
    data = write_arrow(parts(), path, schema) if write else open_arrow(path)
    digest = hashlib.sha256(" ".join([first.fingerprint, second.fingerprint, *names, *added]).encode()).hexdigest()
    return Table(data, (*first.files, *second.files), digest, (*first.units, *second.units), first.documents)


def with_rows_of(table: Table, added: Table) -> Table:
    """The rows of a table, and behind them those of another, which is small enough to be held in memory."""
    own, other = set(table.rows.column_names), set(added.rows.column_names)
    if own != other:
        one, odd = (added, other - own) if other - own else (table, own - other)
        raise DataError(
            f"has {', '.join(map(repr, sorted(odd)))}, which {(table if one is added else added).files[0]} has not. "
            "Expected the same columns in the rows that are added.",
            "column-missing",
            location=Location(one.files[0]),
        )
    names = table.rows.column_names
    rows: dict[str, list[Value]] = {name: [] for name in names}
    for arrays in added.arrays(names):
        for name, array in zip(names, arrays, strict=True):
            rows[name] += array.to_pylist()
    rows["file"] = [file + len(table.files) for file in rows["file"]]
    whole = table.rows if table._whole is None else table._whole
    indices = np.arange(len(whole)) if table._indices is None else table._indices
    both = datasets.concatenate_datasets([whole, datasets.Dataset.from_dict(rows, features=whole.features)])
    indices = np.concatenate([indices, len(whole) + np.arange(len(added))])
    digest = hashlib.sha256(f"{table.fingerprint}+{added.fingerprint}".encode()).hexdigest()
    return Table(
        both.select(indices),
        (*table.files, *added.files),
        digest,
        (*table.units, *added.units),
        table.documents,
        both,
        indices,
    )


def _extended_schema(table: Table, columns: Mapping[str, list[Value]]) -> pa.Schema:
    """The table's Arrow schema with further columns, of lists of texts or of numbers."""
    own = table.rows.features.arrow_schema
    first = {name: next((value for row in rows for value in row), "") for name, rows in columns.items()}
    added = [(name, pa.list_(pa.string() if isinstance(value, str) else pa.float64())) for name, value in first.items()]
    return pa.schema([*((field.name, field.type) for field in own), *added])


def from_rows(rows: Iterable[Mapping[str, Value]], schema: Schema, folder: Path, name: str = "memory") -> Table:
    """Store rows given in Python, checked as a file's are; row 1 decides which optional columns exist."""
    checked = _CheckedRows(schema, name)
    stream = checked.check(rows)
    first = next(stream, None)
    if first is None:
        raise DataError("no rows. Expected at least one.", "no-rows", location=Location(name))
    names = [*checked.columns, *checked.defaults]
    batches = column_batches(itertools.chain([first], stream), [*names, "file", "line"], schema.texts)
    path = folder / "rows.arrow"
    data = write_arrow(batches, path, arrow_schema(schema, names))
    return Table(data, (name,), checksum(path)["sha256"], ("row ",))


class _CheckedRows:
    """Rows given in Python, checked one by one; the columns are known once the first is read."""

    def __init__(self, schema: Schema, name: str) -> None:
        self.schema = schema
        self.name = name
        self.columns: list[str] = []
        self.defaults: dict[str, int] = {}

    def check(self, rows: Iterable[Mapping[str, Value]]) -> Iterator[Row]:
        """Yield each row with the values that the schema promises."""
        converter: RowConverter | None = None
        given: list[str] = []
        for number, row in enumerate(rows, 1):
            if converter is None:
                given = [column.name for column in self.schema.read_from(row)]
                columns = [FileColumn(stored(column), column.name) for column in self.schema.read_from(row)]
                self.columns = self.schema.stored_names([column.target.name for column in columns])
                self.defaults = self.schema.defaults(self.columns)
                converter = RowConverter(columns, None, self.schema)
            try:
                values = _convert(row, given, converter)
            except Fault as fault:
                raise fault.at(Location(self.name, number, "row ")) from None
            yield {**values, **self.defaults, "file": 0, "line": number}


def _convert(row: Mapping[str, Value], columns: list[str], converter: RowConverter) -> Row:
    for key in row:
        if key not in columns:
            problem = f"holds {key!r}, which this task does not read; {nearest(str(key), columns)}"
            raise Fault(problem, "column-unknown", str(key))
    for column in columns:
        if column not in row:
            problem = f"has no {column!r}. Expected {', '.join(map(repr, columns))} in every row."
            raise Fault(problem, "column-missing", column)
    values, missing = converter.convert([_plain(row[column]) for column in columns])
    if missing:
        raise Fault(
            f"{missing!r} is missing. Expected an answer in every row: fill it in or leave the row out.",
            "answer-missing",
            missing,
        )
    return values


def _plain(value: Value) -> Value:
    """A numpy scalar or array as the Python value it stands for."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
