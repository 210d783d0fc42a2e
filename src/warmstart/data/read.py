"""Rows of a source, streamed and strict: each is what the schema asks for, or an error names its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from warmstart.data import joins
from warmstart.data.column_names import report_unread
from warmstart.data.fault_handling import Droppable, FaultHandler
from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.formats import conll, delimited, hub, json_rows, jsonl, qrels, txt
from warmstart.data.formats.sheets import records as sheets
from warmstart.data.row_conversion import RowConverter
from warmstart.data.schema import Row, Schema
from warmstart.data.source import FileColumn, Record, Source, file_columns, format_of, is_hub, row_unit
from warmstart.errors import DataError, Location


def iter_rows(
    source: Source,
    schema: Schema,
    findings: Findings,
    *,
    drop: Collection[Droppable] = (),
    collect_errors: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a source in file order, with no more than a batch in memory.

    Args:
        drop: Rows that are left out and counted, instead of being errors.
        collect_errors: Make a finding of each row that is wrong, and of each file that cannot be read to its end, and
            read on.
    """
    columns = file_columns(source, schema)
    for file in source.files:
        check_file(file, source)
    joins.check_source(source)
    texts = {
        name: _texts(texts_source, findings if name == "query" else Findings())
        for name, texts_source in source.texts.items()
    }
    reader = _RowReader(source, schema, columns, texts, FaultHandler(findings, frozenset(drop), collect_errors))
    count = 0
    for index in range(len(source.files)):
        try:
            for row in reader.rows(index, findings):
                count += 1
                yield row
        except DataError as error:
            if not collect_errors:
                raise
            findings.add(error.kind, "error", error.problem, error.location)
    if not count and reader.faults.dropped:
        raise _all_dropped(reader.faults.dropped, columns, source)


class _RowReader:
    """Reads the rows of each file of a source."""

    def __init__(
        self,
        source: Source,
        schema: Schema,
        columns: tuple[FileColumn, ...],
        texts: Mapping[str, Mapping[str, str]],
        faults: FaultHandler,
    ) -> None:
        self.faults = faults
        self._source, self._schema, self._columns, self._texts = source, schema, columns, texts
        self._converter = RowConverter(columns, source.label_separator, schema)
        self._defaults = schema.defaults([column.target.name for column in columns])

    def rows(self, index: int, findings: Findings) -> Iterator[Row]:
        """Yield the rows of one file that are right; the others are dealt with as faults."""
        file, converter = self._source.files[index], self._converter
        line, unit = 0, row_unit(file, self._source)
        for line, raw in _records(file, self._source, self._columns, findings, self._texts):
            try:
                if isinstance(raw, Fault):
                    raise raw
                row, missing = converter.convert(raw)
                if missing:
                    raise _unlabelled(missing, self._columns)
            except Fault as fault:
                self.faults.handle(fault, Location(file, line, unit))
                continue
            if converter.notes:
                converter.report(findings, Location(file, line, unit))
            row |= self._defaults
            row["file"] = index
            row["line"] = line
            yield row
        if not line:
            raise _empty(file, self._source)
        report_unread(file, self._source, self._schema, self._columns, findings)


def check_file(file: str, source: Source) -> None:
    """Refuse what is not a file before anything is read."""
    if is_hub(file):
        hub.parse(file)
        return
    path = Path(file)
    if path.is_dir():
        problem = "is a folder. Expected a file: name the files in it, one by one."
        raise DataError(problem, "no-file", location=Location(file))
    if not path.exists():
        near = path.parent if path.parent.is_dir() else Path()
        problem = f"no such file. Expected a path; list what is there with: ls {near}"
        raise DataError(problem, "no-file", location=Location(file))
    format_of(file, source)


def _texts(source: Source, findings: Findings) -> dict[str, str]:
    """The texts that rows refer to by id; a collection of documents reports its findings when it is opened itself."""
    return joins.texts_by_id(iter_rows(source, joins.TEXT_SCHEMA, findings), source)


def _records(
    file: str, source: Source, columns: Sequence[FileColumn], findings: Findings, texts: Mapping[str, Mapping[str, str]]
) -> Iterator[Record]:
    """The records of a file, with the texts that they refer to by id."""

    def read(inner: Sequence[FileColumn]) -> Iterator[Record]:
        return _own_records(file, source, inner, findings)

    return joins.joined_records(file, source, columns, read, texts) if texts else read(columns)


def _own_records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    if is_hub(file):
        return hub.records(file, source, columns)
    format = format_of(file, source)
    if format == "parquet":
        from warmstart.data.formats import parquet  # Arrow takes a second to import, and most files are text

        return parquet.records(file, source, columns)
    if format in _READERS:
        return _READERS[format](file, source, columns, findings)
    return delimited.records(file, format, source, columns, findings)


_READERS: dict[str, Callable[[str, Source, Sequence[FileColumn], Findings], Iterator[Record]]] = {
    "jsonl": jsonl.records,
    "json": json_rows.records,
    "conll": conll.records,
    "qrels": qrels.records,
    "txt": txt.records,
    "xlsx": sheets.records,
    "ods": sheets.records,
}
"""The reader of each format that is neither delimited nor Parquet."""


def _unlabelled(missing: str, columns: Sequence[FileColumn]) -> Fault:
    name = next(column.name for column in columns if column.target.name == missing)
    return Fault(
        f"no answer in {name!r}. Expected one in every row: fill it in, check the column's name "
        f"(data.columns.{missing}), or leave such rows out with --drop unlabelled (drop: [unlabelled]).",
        "answer-missing",
        name,
    )


def _all_dropped(dropped: Counter[Droppable], columns: Sequence[FileColumn], source: Source) -> DataError:
    kinds = " and ".join(f"{number} {name}" for name, number in dropped.items())
    names = ", ".join(repr(column.name) for column in columns)
    return DataError(
        f"all {dropped.total()} rows were dropped ({kinds}). Expected some in {names}: check the names of the columns "
        "(data.columns).",
        "no-rows",
        location=Location(source.files[0]),
    )


def _empty(file: str, source: Source) -> DataError:
    if not is_hub(file) and format_of(file, source) in ("csv", "tsv") and source.header:
        advice = "one besides the header; if the first line is a row, pass --no-header (data.header: false)."
    else:
        advice = "one: give a file with rows."
    return DataError(f"no rows. Expected at least {advice}", "no-rows", location=Location(file))
