"""The columns of a file that a task does not read, kept as they are to be written next to its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmstart.data.column_names import column_names
from warmstart.data.schema import Column, Row, Schema
from warmstart.data.source import Source
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
