"""The names of a file's columns, and those that a task could read but that no option names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from warmstart.data.findings import Findings
from warmstart.data.formats import delimited, hub, json_rows, jsonl
from warmstart.data.formats.sheets import records as sheets
from warmstart.data.schema import Schema
from warmstart.data.source import FileColumn, Source, format_of, is_hub, option
from warmstart.errors import Location


def column_names(file: str, source: Source, objects: int | None = None) -> list[str]:
    """The names of a file's columns, in order.

    Args:
        objects: Of a JSON file, the names are gathered from so many objects; None for all of them.
    """
    if is_hub(file):
        return hub.names(file)
    format = format_of(file, source)
    if format in ("csv", "tsv"):
        return delimited.names(file, format, source)
    if format in ("xlsx", "ods"):
        return sheets.names(file, source)
    if format == "parquet":
        from warmstart.data.formats import parquet  # Arrow takes a second to import, and most files are text

        return parquet.names(file)
    read = {"jsonl": jsonl.objects, "json": json_rows.objects}.get(format)
    if read is None:
        return []
    return list(dict.fromkeys(name for item in islice(read(file, source, Findings()), objects) for name in item))


def report_unread(file: str, source: Source, schema: Schema, columns: Sequence[FileColumn], findings: Findings) -> None:
    """Warn of each column called like an optional one of the task, which is only read where an option names it.

    Ids are left out, since any file may have some; so are files to be answered: their run says what it reads.
    """
    read = {name for column in columns for name in (column.name, column.target.name)}
    unread = [
        column
        for column in schema
        if not column.required and column.name not in read and (column.answer or column.kind != "label")
    ]
    if schema.answer is None or not unread:
        return
    names = column_names(file, source, objects=1)
    for column in unread:
        if column.name in names:
            problem = (
                f"the column {column.name!r} is not read, as no option names it. If it is {column.meaning}: "
                f"{option(column.name, column.name)} (data.columns.{column.name})"
            )
            findings.add("column-unread", "warning", problem, Location(file))
