"""Rows of Parquet files, only the columns to read, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from warmstart.data.schema import Value
from warmstart.data.source import FileColumn, Record, Source, missing_column
from warmstart.errors import DataError, Location

BATCH = 1000


def records(file: str, source: Source, columns: Sequence[FileColumn]) -> Iterator[Record]:
    """Yield each row's number and its values in `columns`."""
    try:
        with pq.ParquetFile(file) as parquet:
            check_columns(file, parquet.schema_arrow, columns, source)
            # Decoded by name and picked by position: a column may be read twice.
            names = list(dict.fromkeys(column.name for column in columns))
            number = 0
            for batch in parquet.iter_batches(batch_size=BATCH, columns=names):
                values = [_to_python(file, number, batch.column(column.name)) for column in columns]
                for row in zip(*values, strict=True):
                    number += 1
                    yield number, list(row)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def names(file: str) -> list[str]:
    """The names of a file's columns."""
    try:
        return list(pq.read_schema(file).names)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: BaseException) -> DataError:
    return DataError(
        f"not readable as Parquet ({_first_line(error)}). Expected what its name says: "
        "write or download it again, or state another --format (data.format).",
        "parquet",
        location=Location(file),
    )


def _to_python(file: str, before: int, column: pa.Array) -> list[Value]:
    """A column's values; Arrow itself does not check that text is UTF-8."""
    try:
        values: list[Value] = column.to_pylist()
    except UnicodeDecodeError as error:
        bad = next(row for row, value in enumerate(column.cast(pa.binary()).to_pylist()) if not _is_utf8(value))
        raise DataError(
            f"the text holds bytes that are not UTF-8 ({error.reason}). "
            "Expected text: write the file again from decoded text.",
            "encoding",
            location=Location(file, before + bad + 1, "row "),
        ) from error
    return values


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def check_columns(file: str, schema: pa.Schema, columns: Sequence[FileColumn], source: Source) -> None:
    """Refuse a file that lacks a column to read, has it twice, or holds labels as fractions."""
    location = Location(file)
    for column in columns:
        count = schema.names.count(column.name)
        if count == 0:
            raise missing_column(column, schema.names, source).at(location)
        if count > 1:
            raise DataError(
                f"{count} columns are named {column.name!r}. Expected one: rename the others.",
                "header-repeated",
                location=location,
                column=column.name,
            )
        stored = schema.field(column.name).type
        inner = stored.value_type if hasattr(stored, "value_type") else stored
        if column.target.kind in ("label", "labels") and (pa.types.is_floating(inner) or pa.types.is_decimal(inner)):
            raise DataError(
                f"the label column {column.name!r} holds {inner}. Expected text, whole numbers or "
                "booleans, since 1 and 1.0 would be two labels: convert the column first.",
                "label-fraction",
                location=location,
                column=column.name,
            )


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
