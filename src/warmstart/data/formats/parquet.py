"""Rows of Parquet files, only the wanted columns, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warmstart.data.source import Record, Source, Wanted, missing_column
from warmstart.errors import DataError

BATCH = 1000


def records(file: str, source: Source, wanted: Sequence[Wanted]) -> Iterator[Record]:
    """Give each row's number and its wanted values."""
    try:
        with pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            check_columns(file, schema, wanted, source)
            # Decoded by name and picked by position: a column may be wanted twice.
            names = list(dict.fromkeys(want.name for want in wanted))
            number = 0
            for batch in parquet.iter_batches(batch_size=BATCH, columns=names):
                columns = [_plain(file, number, batch.column(want.name)) for want in wanted]
                for values in zip(*columns, strict=True):
                    number += 1
                    yield number, list(values)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{file}: not readable as Parquet ({_first_line(error)}). Expected what its name says: "
            "write or fetch it again, or state another --format (data.format).",
            "parquet",
        ) from error


def _plain(file: str, before: int, column: Any) -> list[Any]:
    """Give a column's values; Arrow itself does not look whether text is UTF-8."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        bad = next(row for row, value in enumerate(column.cast(pa.binary()).to_pylist()) if not _is_utf8(value))
        raise DataError(
            f"{file}:row {before + bad + 1}: the text holds bytes that are not UTF-8 ({error.reason}). "
            "Expected text: write the file again from decoded text.",
            "encoding",
        ) from error
    return values


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def check_columns(file: str, schema: Any, wanted: Sequence[Wanted], source: Source) -> None:
    """Refuse a file that lacks a wanted column, names one twice, or holds labels as fractions."""
    for want in wanted:
        found = schema.names.count(want.name)
        if found == 0:
            raise missing_column(file, want, schema.names, source)
        if found > 1:
            raise DataError(
                f"{file}: {found} columns are named {want.name!r}. Expected one: rename the others.", "header-repeated"
            )
        kind = schema.field(want.name).type
        inner = kind.value_type if hasattr(kind, "value_type") else kind
        if want.column.kind in ("label", "labels") and (pa.types.is_floating(inner) or pa.types.is_decimal(inner)):
            raise DataError(
                f"{file}: the label column {want.name!r} holds {inner}. Expected text, whole numbers or "
                "booleans, since 1 and 1.0 would be two labels: convert the column first.",
                "label-fraction",
            )


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
