"""Rows of qrels files, the judgements of TREC: `query 0 document relevance` a line, by ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmstart.data.findings import Findings
from warmstart.data.lines import lines
from warmstart.data.source import Record, Source, Wanted
from warmstart.errors import DataError

COLUMNS = ("query_id", "iteration", "document_id", "label")
"""What the parts of a line are; the second is a 0 that nobody reads."""


def records(file: str, source: Source, wanted: Sequence[Wanted], findings: Findings) -> Iterator[Record]:
    """Give each judgement's line number and its wanted parts; a line of more or fewer than four is an error."""
    picked = [COLUMNS.index(want.column.name) for want in wanted]
    blank = count = 0
    for number, line in enumerate(lines(file, source.encoding, findings), 1):
        parts = line.split()
        if not parts:
            blank, count = blank or number, count + 1
            continue
        if blank:
            raise DataError(
                f"{file}:{blank}: a blank line between judgements. Expected one: remove the line.", "blank-line"
            )
        if len(parts) != len(COLUMNS):
            raise DataError(
                f"{file}:{number}: found {len(parts)} parts, expected 4: query, 0, document, relevance: `q1 0 d7 1`. "
                "If the file is a table with ids, say its --format and the names of query_id, document_id and label.",
                "qrels-parts",
            )
        yield number, [parts[index] for index in picked]
    if blank:
        findings.add("blank-end", "note", "blank lines at the end of the file, skipped", file, blank, count)
