"""Rows of JSON files: one list of objects, or questions nested as SQuAD has them. Such a file is parsed as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from warmstart.data.findings import Findings
from warmstart.data.formats import squad
from warmstart.data.formats.jsonl import Repeated, unique
from warmstart.data.lines import lines
from warmstart.data.source import Record, Source, Wanted, missing_column
from warmstart.errors import DataError


def records(file: str, source: Source, wanted: Sequence[Wanted], findings: Findings) -> Iterator[Record]:
    """Give each object's number and its wanted values; an answer's absent key counts as null."""
    rows = parse(file, source, findings)
    if squad.is_squad(rows):
        rows = squad.rows(file, rows, findings)
    elif not isinstance(rows, list):
        raise DataError(
            f"{file}: found a JSON {type(rows).__name__}, expected a list of objects, `[{{…}}, …]`, or SQuAD's `data`.",
            "json-object",
        )
    needed = [
        want
        for want in wanted
        if not want.column.answer and (want.column.required or want.column.name in source.columns)
    ]
    for number, item in enumerate(rows, 1):
        if not isinstance(item, dict):
            raise DataError(f"{file}:row {number}: found {str(item)[:60]!r}, expected an object.", "json-object")
        for want in needed:
            if want.name not in item:
                raise missing_column(f"{file}:row {number}", want, list(item), source)
        yield number, [item.get(want.name) for want in wanted]


def parse(file: str, source: Source, findings: Findings) -> object:
    """The value in a JSON file, every key once."""
    text = "".join(lines(file, source.encoding, findings))
    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        hint = " One object a line is JSONL: say --format jsonl." if error.msg == "Extra data" else ""
        raise DataError(f"{file}:{error.lineno}: not JSON: {error.msg}.{hint}", "json") from None
    except Repeated as error:
        raise DataError(f"{file}: {error}. Expected each key once.", "json-key") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: {error}. Expected plain JSON.", "json") from None
