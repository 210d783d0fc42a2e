"""Ids of rows: a column that no task reads, so it is looked at only when it is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warmstart.data.fault_kinds import KINDS
from warmstart.data.findings import Findings
from warmstart.data.read import read
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source, place, unit

SCHEMA = Schema((Column("id", "label", "what names a row"),))


def check_ids(source: Source, column: str, findings: Findings) -> None:
    """Tell of ids that stand in an earlier row; a row without one is an error.

    Only a hash of each id is kept: two ids of one hash are so rare that they are not told apart.
    """
    known: dict[int, tuple[int, int]] = {}
    count = 0
    first = ("", 0, "")
    for name, file, line in _ids(source, column):
        earlier = known.setdefault(hash(name), (file, line))
        if earlier != (file, line):
            count += 1
            if count == 1:
                stands = place(source.files[earlier[0]], earlier[1], source)
                first = (source.files[file], line, f"the id {name!r} stands at {stands} already")
    if count:
        message = first[2] + (f"; {count:,} times in all" if count > 1 else "")
        findings.add(
            "id-repeated", KINDS["id-repeated"].severity, message, *first[:2], count, unit(source.files[0], source)
        )


def _ids(source: Source, column: str) -> Iterator[tuple[str, int, int]]:
    for row in read(replace(source, columns={"id": column}), SCHEMA, Findings()):
        yield row["id"], row["file"], row["line"]
