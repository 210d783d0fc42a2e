"""Rows of plain text files: a document between blank lines, or one a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmstart.data.findings import Findings
from warmstart.data.lines import lines
from warmstart.data.source import GIVES, Record, Source, Wanted
from warmstart.errors import DataError


def records(file: str, source: Source, wanted: Sequence[Wanted], findings: Findings) -> Iterator[Record]:
    """Give each document's first line and its text, line ends inside it as line feeds; blank lines belong to none."""
    for want in wanted:
        if want.column.name not in GIVES["txt"] or want.name not in GIVES["txt"]:
            raise DataError(
                f"{file}: a txt file has no column {want.name!r}. It gives {', '.join(GIVES['txt'])} alone, as "
                "--task masked reads it; is it another format (--format), or another task?",
                "column-missing",
            )
    start = 0
    found: list[str] = []
    for number, line in enumerate(lines(file, source.encoding, findings), 1):
        body = line.rstrip("\r\n")
        blank = not body.strip()
        if found and (blank or source.document == "line"):
            yield start, ["\n".join(found)] * len(wanted)
            found = []
        if not blank:
            start = start if found else number
            found.append(body)
    if found:
        yield start, ["\n".join(found)] * len(wanted)
