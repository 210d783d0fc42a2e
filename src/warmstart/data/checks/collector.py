"""Where each kind of fault was seen in a table: one finding a kind, with its first places and its number."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warmstart.data.fault_kinds import KINDS
from warmstart.data.findings import Findings
from warmstart.data.table import Table

PLACES = 3
"""How many places of a kind are told."""
SHOWN = 60
"""How many characters of a value are told."""


class Sightings:
    """What was seen in one table; bounded, however often something is seen."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rows: dict[str, list[int]] = {}
        self._what: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def see(self, kind: str, row: int, what: str, count: int = 1) -> None:
        """Note a kind at a row; rows come in ascending order, and what the first was is told."""
        rows = self._rows.setdefault(kind, [])
        if len(rows) < PLACES:
            rows.append(int(row))
        self._what.setdefault(kind, what)
        self._count[kind] = self._count.get(kind, 0) + count

    def see_all(self, kind: str, rows: Iterable[int], what: Callable[[int], str]) -> None:
        """Note a kind at many rows, in ascending order; `what` is asked for the first only."""
        for row in rows:
            self.see(kind, row, "" if kind in self._what else what(int(row)))

    def see_table(self, kind: str, what: str) -> None:
        """Note a kind that has no single place."""
        self._rows[kind], self._what[kind], self._count[kind] = [], what, 1

    def report(self, findings: Findings) -> None:
        """Tell each kind as one finding, placed at its first row."""
        for kind, rows in self._rows.items():
            file, line = self.table.place(rows[0]) if rows else (self.table.files[0], 0)
            unit = self.table.unit(file)
            message = self._what[kind]
            if self._count[kind] > 1:
                next_ones = ", ".join(self.table.where(row) for row in rows[1:])
                message += f"; {self._count[kind]:,} times in all" + (f", next at {next_ones}" if next_ones else "")
            findings.add(kind, KINDS[kind].severity, message, file, line, self._count[kind], unit)


def shown(value: str) -> str:
    """Give the start of a text as it can be printed, with what is invisible spelled out."""
    return repr(value if len(value) <= SHOWN else value[:SHOWN] + "…")
