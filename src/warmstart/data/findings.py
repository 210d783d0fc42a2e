"""What reading saw on the way: remarks with file and line, bounded however large the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
KEPT = 20
"""How many findings of one kind are kept with their place; the rest are counted."""


@dataclass(frozen=True)
class Finding:
    """One thing seen in the data; `line` is 0 where the finding has no single place.

    Attributes:
        unit: What stands before the line: nothing, or `row ` where a file has rows and no lines.
    """

    kind: str
    severity: Severity
    message: str
    file: str = ""
    line: int = 0
    count: int = 1
    unit: str = ""

    @property
    def where(self) -> str:
        """Its place, such as `train.csv:17`, as far as it has one."""
        return f"{self.file}:{self.unit}{self.line}" if self.file and self.line else self.file


class Findings:
    """Findings by kind: the first 20 of each with their place, and the number of the rest."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Finding]] = {}
        self._more: dict[str, int] = {}

    def add(
        self,
        kind: str,
        severity: Severity,
        message: str,
        file: str = "",
        line: int = 0,
        count: int = 1,
        unit: str = "",
    ) -> None:
        """Record one finding; past the first 20 of its kind it is only counted."""
        kept = self._kept.setdefault(kind, [])
        if len(kept) < KEPT:
            kept.append(Finding(kind, severity, message, file, line, count, unit))
        else:
            self._more[kind] = self._more.get(kind, 0) + count

    def extend(self, findings: Iterable[Finding]) -> None:
        """Record findings made elsewhere, such as those of an earlier reading."""
        for finding in findings:
            self.add(**asdict(finding))

    def count(self, kind: str) -> int:
        """How often a kind was seen, kept or not."""
        return sum(finding.count for finding in self._kept.get(kind, ())) + self._more.get(kind, 0)

    def as_json(self) -> list[dict[str, Any]]:
        """Give the findings as plain objects, in the order of `list`."""
        return [asdict(finding) for finding in self]

    def __iter__(self) -> Iterator[Finding]:
        for kind, kept in self._kept.items():
            yield from kept
            if more := self._more.get(kind, 0):
                last = kept[-1]
                yield replace(last, message=f"{more} more of this kind", file="", line=0, count=more)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    # Kept last: inside this class body the name would otherwise hide the builtin from the annotations above.
    @property
    def list(self) -> tuple[Finding, ...]:
        """All findings, by kind in the order first seen; the number of a kind's rest is its last entry."""
        return tuple(self)


def from_json(objects: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Read back the findings that `Findings.as_json` wrote."""
    return tuple(Finding(**item) for item in objects)
