"""What becomes of a row that is wrong: an error, a finding if all are collected, or dropped if that was asked for."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.errors import Location

Droppable = Literal["unlabelled", "empty"]
_DROPPABLE: dict[str, Droppable] = {
    "answer-missing": "unlabelled",
    "text-empty": "empty",
    "text-blank": "empty",
    "blank-line": "empty",
}
"""The faults that a row may be dropped for."""
DROPPABLE = tuple(dict.fromkeys(_DROPPABLE.values()))
_DONE: dict[Droppable, str] = {"unlabelled": "no answer", "empty": "no text"}


class FaultHandler:
    """Raises what is wrong with a row, or records it.

    Attributes:
        dropped: How many rows were dropped, by the reason.
    """

    def __init__(self, findings: Findings, drop: frozenset[Droppable], collect: bool) -> None:
        self._findings, self._drop, self._collect = findings, drop, collect
        self.dropped: Counter[Droppable] = Counter()

    def handle(self, fault: Fault, location: Location) -> None:
        """Deal with the fault of one row, which is left out unless this raises."""
        kind = _DROPPABLE.get(fault.kind)
        if kind in self._drop and kind is not None:
            where = f" in {fault.column!r}" if fault.column else ""
            self._findings.add(kind, "warning", f"{_DONE[kind]}{where}; the row was dropped", location)
            self.dropped[kind] += 1
        elif self._collect:
            self._findings.add(fault.kind, "error", str(fault), location)
        else:
            raise fault.at(location) from None
