"""Rows of JSONL files: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from warmstart.data.findings import Findings
from warmstart.data.lines import lines
from warmstart.data.source import Record, Source, Wanted, missing_column
from warmstart.errors import DataError


def records(file: str, source: Source, wanted: Sequence[Wanted], findings: Findings) -> Iterator[Record]:
    """Give each object's line number and its wanted values; an answer's absent key counts as null."""
    decoder = json.JSONDecoder(object_pairs_hook=unique)
    questions = [want for want in wanted if not want.column.answer]
    names = [want.name for want in wanted]
    blank = count = 0
    for number, line in enumerate(lines(file, source.encoding, findings), 1):
        if line.isspace():
            blank, count = blank or number, count + 1
            continue
        if blank:
            raise DataError(
                f"{file}:{blank}: a blank line between objects. Expected an object: remove the line.", "blank-line"
            )
        item = parse(file, number, line, decoder)
        for want in questions:
            if want.name not in item:
                raise missing_column(f"{file}:{number}", want, list(item), source)
        yield number, [item.get(name) for name in names]
    if blank:
        findings.add("blank-end", "note", "blank lines at the end of the file, skipped", file, blank, count)


def parse(file: str, number: int, line: str, decoder: json.JSONDecoder) -> dict[str, Any]:
    """The object in a line, every key once."""
    line = line.rstrip("\r\n")
    try:
        item = decoder.decode(line)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file}:{number}:{error.colno}: not JSON: {error.msg}. Expected one object a line.", "json"
        ) from None
    except Repeated as error:
        raise DataError(f"{file}:{number}: {error}. Expected one plain object a line.", "json-key") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}:{number}: {error}. Expected one plain object a line.", "json") from None
    if not isinstance(item, dict):
        raise DataError(
            f"{file}:{number}: found a JSON {type(item).__name__}, expected an object such as "
            '{"text": "…", "label": "…"}. Write one object a line.',
            "json-object",
        )
    return item


class Repeated(ValueError):
    """A key that stands twice in one object."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object from its pairs; json alone would keep the last of two values and say nothing."""
    item = dict(pairs)
    if len(item) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise Repeated(f"the key {repeated!r} stands twice in one object")
    return item
