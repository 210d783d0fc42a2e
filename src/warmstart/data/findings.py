"""Remarks on the data with file and line, bounded in number however large the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from warmstart.errors import Location
from warmstart.storage.json_files import JsonObject

Severity = Literal["error", "warning", "note"]
MAX_PER_KIND = 20
"""How many findings of one kind are stored with their location; the rest are counted."""
NOWHERE = Location("")
"""The location of a finding about the data as a whole."""


@dataclass(frozen=True)
class Finding:
    """One remark on the data; its location has no line where it is about a whole file."""

    kind: str
    severity: Severity
    message: str
    location: Location = NOWHERE
    count: int = 1

    def as_json(self) -> JsonObject:
        """The finding as a plain object, its location in `file`, `line` and `unit`."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "message": self.message,
            "file": self.location.file,
            "line": self.location.line,
            "count": self.count,
            "unit": self.location.unit,
        }


class Findings:
    """Findings by kind: the first 20 of each with their location, and the number of the rest."""

    def __init__(self) -> None:
        self._stored: dict[str, list[Finding]] = {}
        self._more: dict[str, int] = {}

    def add(
        self, kind: str, severity: Severity, message: str, location: Location | None = None, count: int = 1
    ) -> None:
        """Record one finding; past the first 20 of its kind it is only counted."""
        stored = self._stored.setdefault(kind, [])
        if len(stored) < MAX_PER_KIND:
            stored.append(Finding(kind, severity, message, location or NOWHERE, count))
        else:
            self._more[kind] = self._more.get(kind, 0) + count

    def extend(self, findings: Iterable[Finding]) -> None:
        """Record findings made elsewhere, such as those of an earlier reading."""
        for finding in findings:
            self.add(finding.kind, finding.severity, finding.message, finding.location, finding.count)

    def count(self, kind: str) -> int:
        """How many findings of a kind there were, stored or only counted."""
        return sum(finding.count for finding in self._stored.get(kind, ())) + self._more.get(kind, 0)

    def as_json(self) -> list[JsonObject]:
        """The findings as plain objects, in order."""
        return [finding.as_json() for finding in self]

    def __iter__(self) -> Iterator[Finding]:
        """All findings, by kind in the order first seen; the number of a kind's rest is its last entry."""
        for kind, stored in self._stored.items():
            yield from stored
            if more := self._more.get(kind, 0):
                nowhere = replace(stored[-1].location, file="", line=0)
                yield replace(stored[-1], message=f"{more} more of this kind", location=nowhere, count=more)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def from_json(objects: Iterable[JsonObject]) -> tuple[Finding, ...]:
    """Read back the findings that `Findings.as_json` wrote."""
    return tuple(
        Finding(
            item["kind"],
            item["severity"],
            item["message"],
            Location(item["file"], item["line"], item["unit"]),
            item["count"],
        )
        for item in objects
    )
