"""What is wrong with one record: raised, or handed on, by what knows the record and not where it stands."""

from __future__ import annotations

from warmstart.errors import DataError, Location


class Fault(Exception):
    """What is wrong with one record or value; a reader adds the location.

    Attributes:
        kind: Which fault it is, by its name in the table of `fault_kinds.py`.
        column: The column that is at fault, where it is one.
    """

    def __init__(self, problem: str, kind: str, column: str | None = None) -> None:
        super().__init__(problem)
        self.kind = kind
        self.column = column

    def at(self, location: Location) -> DataError:
        """The same fault as an error that names the file and the line."""
        return DataError(str(self), self.kind, location=location, column=self.column)
