"""Rows of JSON files: a list of objects, or questions nested as in SQuAD. Such a file is parsed as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.formats import squad
from warmstart.data.source import FileColumn, Record, Source, missing_column
from warmstart.data.text_lines import read_lines
from warmstart.errors import DataError, Location
from warmstart.storage.json_files import Json, JsonObject, RepeatedKeyError, unique_keys


def records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    """Yield each object's number and its values in `columns`; a missing key of an answer counts as null."""
    needed = [
        column
        for column in columns
        if not (column.target.answer or column.target.kind == "any")
        and (column.target.required or column.target.name in source.columns)
    ]
    for number, item in enumerate(_objects(file, source, findings), 1):
        if not isinstance(item, dict):
            yield number, Fault(f"found {str(item)[:60]!r}, expected an object.", "json-object")
            continue
        absent = next((column for column in needed if column.name not in item), None)
        yield number, missing_column(absent, list(item), source) if absent else [item.get(c.name) for c in columns]


def objects(file: str, source: Source, findings: Findings) -> Iterator[JsonObject]:
    """Yield the objects that can be read."""
    yield from (item for item in _objects(file, source, findings) if isinstance(item, dict))


def _objects(file: str, source: Source, findings: Findings) -> Iterable[Json]:
    value = _parse(file, source, findings)
    if isinstance(value, dict) and squad.is_squad(value):
        return squad.rows(file, value, findings)
    if isinstance(value, list):
        return value
    raise DataError(
        f"found a JSON {type(value).__name__}, expected a list of objects, `[{{…}}, …]`, or SQuAD's `data`.",
        "json-object",
        location=Location(file),
    )


def _parse(file: str, source: Source, findings: Findings) -> Json:
    """The value in a JSON file, every key once."""
    text = "".join(read_lines(file, source.encoding, findings))
    try:
        value: Json = json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        hint = " One object per line is JSONL: pass --format jsonl." if error.msg == "Extra data" else ""
        raise DataError(f"not JSON: {error.msg}.{hint}", "json", location=Location(file, error.lineno)) from None
    except RepeatedKeyError as error:
        raise DataError(f"{error}. Expected each key once.", "json-key", location=Location(file)) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{error}. Expected plain JSON.", "json", location=Location(file)) from None
    return value
