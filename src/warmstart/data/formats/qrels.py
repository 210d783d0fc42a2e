"""Rows of qrels files, the relevance judgements of TREC: `query 0 document relevance` per line, by ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.source import FileColumn, Record, Source
from warmstart.data.text_lines import BlankLines, read_lines

COLUMNS = ("query_id", "iteration", "document_id", "label")
"""The parts of a line; the second is a 0 that nobody reads."""


def records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    """Yield each judgement's line and its values in `columns`; a line of more or fewer than four parts is an error."""
    indices = [COLUMNS.index(column.target.name) for column in columns]
    blank = BlankLines(file, "judgements", "Expected one: remove the line.")
    for number, line in enumerate(read_lines(file, source.encoding, findings), 1):
        parts = line.split()
        if not parts:
            blank.add(number)
            continue
        if blank.count:
            yield blank.take()
        if len(parts) != len(COLUMNS):
            problem = (
                f"found {len(parts)} parts, expected 4: query, 0, document, relevance: `q1 0 d7 1`. "
                "If the file is a table with ids, pass its --format and the names of query_id, document_id and label."
            )
            yield number, Fault(problem, "qrels-parts")
            continue
        yield number, [parts[index] for index in indices]
    blank.report(findings)
