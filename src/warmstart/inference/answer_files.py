"""Answers to a file: Parquet, CSV or JSONL, written as they come and published when complete."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.data.schema import Value
from warmstart.errors import RecipeError, nearest
from warmstart.storage.files import atomic_file, open_atomic

if TYPE_CHECKING:
    import pyarrow as pa

Answers = Iterable[Mapping[str, Value]]


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the start of a formula, also in a CSV file."""


def check_out(path: Path, overwrite: bool) -> None:
    """Refuse a file that answers cannot be written to, before any is computed."""
    if path.suffix not in _WRITERS:
        raise RecipeError(f"--out {path}: found suffix {path.suffix!r}; {nearest(path.suffix, _WRITERS)}")
    if path.is_dir():
        raise RecipeError(f"--out {path}: found a folder, expected a file, such as {path / 'predictions.csv'}")
    if path.exists() and not overwrite:
        raise RecipeError(f"--out {path}: the file exists; choose another, or pass --overwrite")


def write_answers(answers: Answers, path: Path) -> int:
    """Write answers to a file, which is complete or absent; returns how many."""
    return _WRITERS[path.suffix](answers, path)


def without_formulas(answer: Mapping[str, Value]) -> dict[str, Value]:
    """An answer no cell of which a spreadsheet takes for a formula: a text or name that begins like one gets a `'`."""
    return {str(_quoted(name)): _quoted(value) for name, value in flat(answer).items()}


def _quoted(value: Value) -> Value:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def flat(answer: Mapping[str, Value]) -> dict[str, Value]:
    """Mappings and lists as JSON text, for formats whose cells are plain."""
    return {
        name: json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value
        for name, value in answer.items()
    }


def _jsonl(answers: Answers, path: Path) -> int:
    count = 0
    with open_atomic(path) as file:
        for answer in answers:
            file.write(json.dumps(answer, ensure_ascii=False, default=str) + "\n")
            count += 1
    return count


def _csv(answers: Answers, path: Path) -> int:
    count = 0
    with open_atomic(path) as file:
        writer: csv.DictWriter[str] | None = None
        for answer in answers:
            row = flat(answer)
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            count += 1
    return count


def _parquet(answers: Answers, path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count, writer, pending = 0, None, iter(answers)
    with atomic_file(path) as staging:
        try:
            while chunk := [flat(answer) for answer in itertools.islice(pending, 10_000)]:
                # Later chunks have the types of the first, even where all of a column is null there: then it is text.
                rows = pa.Table.from_pylist(chunk)
                writer = writer or pq.ParquetWriter(staging, _with_types(rows.schema))
                writer.write_table(rows.cast(writer.schema))
                count += len(chunk)
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise RecipeError(f"--out {path}: a column has values of several types ({reason}); write .jsonl") from None
        finally:
            if writer:
                writer.close()
    return count


_WRITERS: dict[str, Callable[[Answers, Path], int]] = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
"""What writes answers, by the suffix of the file."""


def _with_types(schema: pa.Schema) -> pa.Schema:
    """An Arrow schema in which every column has a type: one of nothing but nulls is text."""
    import pyarrow as pa

    return pa.schema([one.with_type(pa.string()) if pa.types.is_null(one.type) else one for one in schema])
