"""Rows of a source, streamed and strict: each is what the schema asks for, or an error names its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.data import joins as joined
from warmstart.data.findings import Findings
from warmstart.data.formats import conll, delimited, hub, json_rows, jsonl, parquet, qrels, txt
from warmstart.data.schema import Schema
from warmstart.data.source import Record, Source, Wanted, format_of, is_hub, place, unit, wanted
from warmstart.data.values import Fault, Values
from warmstart.errors import DataError

Row = dict[str, Any]
"""The schema's columns by name, `file` (index into the source's files) and `line` (1-based)."""


def read(source: Source, schema: Schema, findings: Findings, *, drop_unlabelled: bool = False) -> Iterator[Row]:
    """Give the rows of a source in file order, holding no more than a batch in memory.

    A row whose answer is missing is an error; with `drop_unlabelled` it is left out and counted.
    """
    columns = wanted(source, schema)
    for file in source.files:
        check_file(file, source)
    joined.check_source(source)
    texts = {name: _texts(one, findings if name == "query" else Findings()) for name, one in source.texts.items()}
    values = Values(columns, source.label_separator)
    defaults = schema.defaults([want.column.name for want in columns])
    kept = dropped = 0
    for index, file in enumerate(source.files):
        line = 0
        for line, raw in _joined(file, source, columns, findings, texts):
            try:
                row, missing = values.row(raw)
            except Fault as fault:
                raise DataError(f"{place(file, line, source)}: {fault}", fault.kind) from None
            if wrong := schema.check(row) if schema.check and not missing else None:
                raise DataError(f"{place(file, line, source)}: {wrong[1]}", wrong[0])
            if values.notes:
                report(values, findings, file, line, unit(file, source))
            if missing:
                if not drop_unlabelled:
                    raise _unlabelled(place(file, line, source), missing, columns)
                findings.add(
                    "unlabelled", "warning", f"no {missing!r}; the row was dropped", file, line, unit=unit(file, source)
                )
                dropped += 1
                continue
            row |= defaults
            row["file"] = index
            row["line"] = line
            kept += 1
            yield row
        if not line:
            raise _empty(file, source)
    if not kept:
        names = ", ".join(repr(want.name) for want in columns if want.column.answer)
        raise DataError(
            f"{source.files[0]}: all {dropped} rows were dropped, since none has an answer. "
            f"Expected answers in {names}: check the column's name (data.columns).",
            "no-rows",
        )


def check_file(file: str, source: Source) -> None:
    """Refuse what is no file before anything is read."""
    if is_hub(file):
        hub.parse(file)
        return
    path = Path(file)
    if path.is_dir():
        raise DataError(f"{file}: is a folder. Expected a file: name the files in it, one by one.", "no-file")
    if not path.exists():
        near = path.parent if path.parent.is_dir() else Path()
        raise DataError(f"{file}: no such file. Expected a path; see what is there with: ls {near}", "no-file")
    format_of(file, source)


def report(values: Values, findings: Findings, file: str, line: int, unit: str) -> None:
    """Turn the notes of one row into findings."""
    for kind, message in values.notes:
        findings.add(kind, "warning", message, file, line, unit=unit)
    values.notes.clear()


def _texts(source: Source, findings: Findings) -> dict[str, str]:
    """The texts that rows name by id; what is found in a collection of documents is told when it is opened itself."""
    return joined.gather(read(source, joined.TEXTS, findings), source)


def _joined(
    file: str, source: Source, columns: Sequence[Wanted], findings: Findings, texts: Mapping[str, Mapping[str, str]]
) -> Iterator[Record]:
    """The records of a file, with the texts that they name by id."""
    if not texts:
        return _records(file, source, columns, findings)
    return joined.records(file, source, columns, lambda inner: _records(file, source, inner, findings), texts)


def _records(file: str, source: Source, columns: Sequence[Wanted], findings: Findings) -> Iterator[Record]:
    if is_hub(file):
        return hub.records(file, source, columns)
    format = format_of(file, source)
    if format == "parquet":
        return parquet.records(file, source, columns)
    if format in _READERS:
        return _READERS[format](file, source, columns, findings)
    return delimited.records(file, format, source, columns, findings)


_READERS: dict[str, Callable[[str, Source, Sequence[Wanted], Findings], Iterator[Record]]] = {
    "jsonl": jsonl.records,
    "json": json_rows.records,
    "conll": conll.records,
    "qrels": qrels.records,
    "txt": txt.records,
}
"""The reader of each format that is neither delimited nor Parquet."""


def _unlabelled(where: str, missing: str, columns: Sequence[Wanted]) -> DataError:
    name = next(want.name for want in columns if want.column.name == missing)
    return DataError(
        f"{where}: no answer in {name!r}. Expected one in every row: fill it in, check the column's name "
        f"(data.columns.{missing}), or leave such rows out with --drop unlabelled (drop: [unlabelled]).",
        "answer-missing",
    )


def _empty(file: str, source: Source) -> DataError:
    if not is_hub(file) and format_of(file, source) in ("csv", "tsv") and source.header:
        advice = "one besides the header; if the first line is a row, say --no-header (data.header: false)."
    else:
        advice = "one: give a file with rows."
    return DataError(f"{file}: no rows. Expected at least {advice}", "no-rows")
