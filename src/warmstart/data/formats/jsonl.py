"""Rows of JSONL files: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.schema import Row
from warmstart.data.source import FileColumn, Record, Source, missing_column
from warmstart.data.text_lines import BlankLines, read_lines
from warmstart.storage.json_files import RepeatedKeyError, unique_keys

_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


def records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    """Yield each object's line and its values in `columns`; a missing key of an answer counts as null."""
    inputs = [column for column in columns if not column.target.answer and column.target.kind != "any"]
    names = [column.name for column in columns]
    blank = BlankLines(file, "objects", "Expected an object: remove the line, or pass --drop empty.")
    for number, line in enumerate(read_lines(file, source.encoding, findings), 1):
        if line.isspace():
            blank.add(number)
            continue
        if blank.count:
            yield blank.take()
        try:
            item = parse_object(line)
            for column in inputs:
                if column.name not in item:
                    raise missing_column(column, list(item), source)
        except Fault as fault:
            yield number, fault
            continue
        yield number, [item.get(name) for name in names]
    blank.report(findings)


def objects(file: str, source: Source, findings: Findings) -> Iterator[Row]:
    """Yield the objects that can be read."""
    for line in read_lines(file, source.encoding, findings):
        with suppress(Fault):
            if not line.isspace():
                yield parse_object(line)


def parse_object(line: str) -> Row:
    """The object in a line, every key once; anything else is a `Fault`."""
    try:
        item = _DECODER.decode(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise Fault(f"not JSON at column {error.colno}: {error.msg}. Expected one object per line.", "json") from None
    except RepeatedKeyError as error:
        raise Fault(f"{error}. Expected one plain object per line.", "json-key") from None
    except (ValueError, RecursionError) as error:
        raise Fault(f"{error}. Expected one plain object per line.", "json") from None
    if not isinstance(item, dict):
        raise Fault(
            f"found a JSON {type(item).__name__}, expected an object such as "
            '{"text": "…", "label": "…"}. Write one object per line.',
            "json-object",
        )
    return item
