"""`data.json`: the files, rows and fingerprint of each part of a run's data, and the findings in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from warmstart.data.findings import Finding, from_json

FILE = "data.json"
_KEYS = {"kind", "severity", "message", "file", "line", "count", "unit"}


def _parse_finding(value: object) -> object:
    if not isinstance(value, dict) or not value.keys() >= _KEYS:
        raise ValueError(f"expected a finding with {', '.join(sorted(_KEYS))}")
    return from_json([value])[0]


@dataclass(frozen=True)
class PartRecord:
    """One part of the data: train, dev or test."""

    files: list[str]
    rows: int
    fingerprint: str
    """A checksum of the rows."""


@dataclass(frozen=True)
class DataRecord:
    """What a run was trained and measured on."""

    parts: dict[str, PartRecord]
    findings: list[Annotated[Finding, BeforeValidator(_parse_finding)]]
