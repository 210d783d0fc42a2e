"""The columns of a file that a task does not read, kept as they are to be written next to its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmstart.data.findings import Findings
from warmstart.data.formats import delimited, hub, json_rows, jsonl, parquet
from warmstart.data.formats.sheets import records as sheets
from warmstart.data.schema import Column, Row, Schema
from warmstart.data.source import Source, format_of, is_hub
from warmstart.errors import RecipeError, nearest

_KEPT = "kept:"
"""What the name of a kept column begins with in a schema, where no task has such a one."""


@dataclass(frozen=True)
class KeptColumns:
    """How a file is read with all its columns, or some of them.

    Attributes:
        source: The source, with the kept columns mapped.
        schema: The schema, with the kept columns.
        names: The names of the kept columns in the file.
    """

    source: Source
    schema: Schema
    names: tuple[str, ...]

    @classmethod
    def of(cls, source: Source, schema: Schema, keep: Sequence[str] | None = None) -> KeptColumns:
        """Keep all columns, or those that are named; a file without named columns has none to keep."""
        known = list(dict.fromkeys(name for file in source.files for name in column_names(file, source)))
        for name in keep or ():
            if name not in known:
                raise RecipeError(f"--keep-column {name}: {source.files[0]} has no such column; {nearest(name, known)}")
        names = tuple(keep or known)
        columns = tuple(Column(f"{_KEPT}{name}", "any", "kept as it is", required=False) for name in names)
        mapped = {**source.columns, **{f"{_KEPT}{name}": name for name in names}}
        return cls(replace(source, columns=mapped), replace(schema, columns=(*schema.columns, *columns)), names)

    def values(self, row: Row) -> Row:
        """The kept values of a row, by the file's own names."""
        return {name: row[f"{_KEPT}{name}"] for name in self.names}


def column_names(file: str, source: Source) -> list[str]:
    """The names of a file's columns, in order; those of objects in JSON are gathered from all of them."""
    if is_hub(file):
        return hub.names(file)
    format = format_of(file, source)
    if format in ("csv", "tsv"):
        return delimited.names(file, format, source)
    if format in ("xlsx", "ods"):
        return sheets.names(file, source)
    if format == "parquet":
        return parquet.names(file)
    objects = {"jsonl": jsonl.objects, "json": json_rows.objects}.get(format)
    if objects is None:
        return []
    return list(dict.fromkeys(name for item in objects(file, source, Findings()) for name in item))
