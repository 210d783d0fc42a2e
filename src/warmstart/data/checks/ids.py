"""Ids of rows: a column that no task reads, so it is checked only when it is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warmstart.data.fault_kinds import FAULT_KINDS
from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source, locate
from warmstart.errors import Location

ID_SCHEMA = Schema((Column("id", "label", "the id of a row"),))


def check_ids(source: Source, column: str, findings: Findings) -> None:
    """Report ids that an earlier row has; a row without one is an error.

    Only a hash of each id is stored: two ids with one hash are so rare that they count as one.
    """
    known: dict[int, tuple[int, int]] = {}
    count = 0
    first: tuple[Location, str] | None = None
    for name, file, line in _ids(source, column):
        earlier = known.setdefault(hash(name), (file, line))
        if earlier != (file, line):
            count += 1
            if first is None:
                used = locate(source.files[earlier[0]], earlier[1], source)
                first = locate(source.files[file], line, source), f"the id {name!r} is already used at {used}"
    if first:
        location, message = first
        message += f"; {count:,} times in all" if count > 1 else ""
        findings.add("id-repeated", FAULT_KINDS["id-repeated"].severity, message, location, count)


def _ids(source: Source, column: str) -> Iterator[tuple[str, int, int]]:
    for row in iter_rows(replace(source, columns={"id": column}), ID_SCHEMA, Findings()):
        yield row["id"], row["file"], row["line"]
