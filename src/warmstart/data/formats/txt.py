"""Rows of plain text files: a document per paragraph, or per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmstart.data.findings import Findings
from warmstart.data.source import BUILT_IN_COLUMNS, FileColumn, Record, Source
from warmstart.data.text_lines import read_lines
from warmstart.errors import DataError, Location


def records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    """Yield each document's first line and its text, with line feeds inside; blank lines belong to none."""
    provided = BUILT_IN_COLUMNS["txt"]
    for column in columns:
        if column.target.name not in provided or column.name not in provided:
            raise DataError(
                f"a txt file has no column {column.name!r}. It only provides {', '.join(provided)}, as "
                "--task masked reads it; is it another format (--format), or another task?",
                "column-missing",
                location=Location(file),
                column=column.name,
            )
    start = 0
    document: list[str] = []
    for number, line in enumerate(read_lines(file, source.encoding, findings), 1):
        body = line.rstrip("\r\n")
        blank = not body.strip()
        if document and (blank or source.document == "line"):
            yield start, ["\n".join(document)] * len(columns)
            document = []
        if not blank:
            start = start if document else number
            document.append(body)
    if document:
        yield start, ["\n".join(document)] * len(columns)
