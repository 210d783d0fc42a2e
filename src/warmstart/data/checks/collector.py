"""Where each kind of finding occurs in a table: one finding per kind, with its first locations and its count."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warmstart.data.fault_kinds import FAULT_KINDS
from warmstart.data.findings import Findings
from warmstart.data.table import Table
from warmstart.errors import Location

MAX_LOCATIONS = 3
"""How many locations of a kind are reported."""
MAX_SHOWN = 60
"""How many characters of a value are shown."""


class FindingCollector:
    """Collects the findings of one table; bounded, however many there are."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rows: dict[str, list[int]] = {}
        self._messages: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._each: list[tuple[str, int, str, int]] = []

    def add_row(self, kind: str, row: int, message: str, count: int = 1) -> None:
        """Add a finding at a row; rows come in ascending order, and the first one's message is reported."""
        rows = self._rows.setdefault(kind, [])
        if len(rows) < MAX_LOCATIONS:
            rows.append(int(row))
        self._messages.setdefault(kind, message)
        self._counts[kind] = self._counts.get(kind, 0) + count

    def add_rows(self, kind: str, rows: Iterable[int], message: Callable[[int], str]) -> None:
        """Add a finding at many rows, in ascending order; `message` is called for the first only."""
        for row in rows:
            self.add_row(kind, row, "" if kind in self._messages else message(int(row)))

    def add_table(self, kind: str, message: str) -> None:
        """Add a finding about the table as a whole."""
        self._rows[kind], self._messages[kind], self._counts[kind] = [], message, 1

    def add_each(self, kind: str, row: int, message: str, count: int = 1) -> None:
        """Add a finding that is reported by itself, beside others of its kind."""
        self._each.append((kind, row, message, count))

    def report(self, findings: Findings) -> None:
        """Report each kind as one finding, located at its first row, and those that were added each by themselves."""
        for kind, row, message, count in self._each:
            findings.add(kind, FAULT_KINDS[kind].severity, message, self.table.location(row), count)
        for kind, rows in self._rows.items():
            location = self.table.location(rows[0]) if rows else self._whole()
            message = self._messages[kind]
            if self._counts[kind] > 1:
                following = ", ".join(str(self.table.location(row)) for row in rows[1:])
                message += f"; {self._counts[kind]:,} times in all" + (f", next at {following}" if following else "")
            findings.add(kind, FAULT_KINDS[kind].severity, message, location, self._counts[kind])

    def _whole(self) -> Location:
        return Location(self.table.files[0], 0, self.table.units[0])


def shown(value: str) -> str:
    """The start of a text as it can be printed, with invisible characters escaped."""
    return repr(value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + "…")
