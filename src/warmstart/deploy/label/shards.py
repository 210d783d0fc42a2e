"""What is to be done: groups of files, cut into shards of so many rows, written down before anything is answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from warmstart.data.source import Source, Wanted, missing_column
from warmstart.deploy.label.locations import Entry, Folder
from warmstart.deploy.label.records import check_format, text_records
from warmstart.errors import DataError, RecipeError, RunError, nearest

PLAN = "plan.json"
LOOKED = 100
"""Rows of a first file that are looked at for its columns."""


@dataclass(frozen=True)
class Shard:
    """A stretch of rows of one file, answered and published as one.

    Attributes:
        name: What its files are called: the number of its file among all, and its first row.
        file: The file, from the folder that is labelled.
        first: The number of its first row in the file, from 0.
        rows: How many there are.
        start: Where the first begins in the file's text, in bytes; 0 in Parquet.
    """

    name: str
    file: str
    first: int
    rows: int
    start: int


@dataclass(frozen=True)
class Group:
    """The shards of some input files, and what those files were like when they were cut."""

    name: str
    files: tuple[dict[str, Any], ...]
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)


def grouped(names: Sequence[str], size: int) -> list[tuple[str, list[tuple[int, str]]]]:
    """Files in groups of a size, each with its number among all: the group's name, then its files."""
    numbered = list(enumerate(names))
    return [(f"group-{start // size:05d}", numbered[start : start + size]) for start in range(0, len(numbered), size)]


def choose(entries: Sequence[Entry], source: Source, where: str) -> tuple[list[Entry], list[str]]:
    """The files of a folder that are read, and the names of those that are left out: hidden ones and those with `_`."""
    hidden = [one for one in entries if any(part.startswith((".", "_")) for part in one.name.split("/"))]
    chosen = [one for one in entries if one not in hidden]
    for one in chosen:
        check_format(one.name, source)
    if not chosen:
        raise DataError(f"{where}: no files to label. Expected .parquet, .jsonl, .csv or .tsv files", "no-file")
    return chosen, [one.name for one in hidden]


def cut(
    folder: Folder, group: str, files: Sequence[tuple[int, str]], source: Source, wanted: Sequence[Wanted], size: int
) -> Group:
    """Cut the files of a group into shards of `size` rows, the last of each file with what is left."""
    shards: list[Shard] = []
    about = []
    for number, name in files:
        told = fingerprint(folder, name)
        own = list(_cut(folder, number, name, source, wanted, size))
        shards += own
        about.append({**told, "rows": sum(shard.rows for shard in own)})
    return Group(group, tuple(about), tuple(shards))


def _cut(
    folder: Folder, number: int, name: str, source: Source, wanted: Sequence[Wanted], size: int
) -> Iterator[Shard]:
    if check_format(name, source) == "parquet":
        rows = parquet_rows(folder, name, source, wanted)
        for first in range(0, rows, size):
            yield Shard(f"{number:06d}-{first:012d}", name, first, min(size, rows - first), 0)
        return
    first = rows = start = position = 0
    try:
        for found in text_records(folder, name, source):
            rows += 1
            position += found.size
            if rows == size:
                yield Shard(f"{number:06d}-{first:012d}", name, first, rows, start)
                first, rows, start = first + rows, 0, position
    except (EOFError, OSError) as error:
        raise DataError(
            f"{name}: not readable ({error}). Expected what its name says: fetch it again", "gzip"
        ) from error
    if rows:
        yield Shard(f"{number:06d}-{first:012d}", name, first, rows, start)


def parquet_rows(folder: Folder, name: str, source: Source, wanted: Sequence[Wanted]) -> int:
    """How many rows a Parquet file has, after its columns were found to be there."""
    rows, names = _parquet_facts(folder, name)
    for want in wanted:
        if want.name not in names:
            raise missing_column(name, want, names, source)
    return rows


def check_first(folder: Folder, name: str, source: Source, wanted: Sequence[Wanted], keep: Sequence[str]) -> None:
    """Refuse a first file that lacks a column: all its rows would be set aside."""
    if check_format(name, source) == "parquet":
        names = _parquet_facts(folder, name)[1]
    else:
        # The first row may be poison itself.
        items = (found.item for found in islice(text_records(folder, name, source), LOOKED) if found.item)
        names = list(dict.fromkeys(key for item in items for key in item))
        if not names:
            return
    for want in wanted:
        if want.column.required and want.name not in names:
            raise missing_column(name, want, names, source)
    for kept in keep:
        if kept not in names:
            raise RecipeError(f"--keep {kept}: {name} has no such column; {nearest(kept, names)}")


def _parquet_facts(folder: Folder, name: str) -> tuple[int, list[str]]:
    """How many rows a Parquet file has, and its columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with folder.open(name) as raw, pq.ParquetFile(raw) as file:
            return int(file.metadata.num_rows), list(file.schema_arrow.names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{name}: not readable as Parquet ({error}). Fetch it again, or say --format", "parquet"
        ) from error


def fingerprint(folder: Folder, name: str) -> dict[str, Any]:
    """What tells whether a file was changed: its size, and when it was last written."""
    found = folder.entry(name)
    if found is None:
        raise RunError(f"{name}: the file is not there any more; put it back and run the same command again")
    return {"file": name, "bytes": found.bytes, "modified": found.modified}


def check_unchanged(folder: Folder, group: Group) -> None:
    """Refuse to go on with files that are no more what was cut into shards."""
    for told in group.files:
        now = fingerprint(folder, told["file"])
        if changed := [name for name in now if now[name] != told[name]]:
            what = ", ".join(f"{name} is {now[name]}, was {told[name]}" for name in changed)
            raise RunError(
                f"{told['file']} was changed since {group.name} was planned ({what}); put the old file back, or "
                "label the new ones into another --out"
            )


def settle(out: Folder, about: Mapping[str, Any]) -> None:
    """Write down what the job is, or refuse to go on with another one in the same place."""
    if (there := read_json(out, PLAN)) is None:
        write_json(out, PLAN, about)
        return
    for name in sorted({*there, *about}):
        if there.get(name) != about.get(name):
            raise RunError(
                f"{out.uri}: begun with {name} {_short(there.get(name))}, now it is {_short(about.get(name))}; "
                "say the same again, or choose another --out"
            )


def write_group(out: Folder, group: Group) -> None:
    """Write down a group's shards."""
    write_json(out, f"{group.name}/{PLAN}", asdict(group))


def read_group(out: Folder, name: str) -> Group | None:
    """A group as it was planned; None if it was not yet."""
    found = read_json(out, f"{name}/{PLAN}")
    if found is None:
        return None
    return Group(found["name"], tuple(found["files"]), tuple(Shard(**one) for one in found["shards"]))


def read_json(folder: Folder, name: str) -> Any:
    """What is in a JSON file; None where it is not there."""
    found = folder.read(name)
    return None if found is None else json.loads(found)


def write_json(folder: Folder, name: str, value: Any) -> str:
    """Write a JSON file in one step; gives its SHA-256."""
    data = (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    folder.write(name, data)
    return hashlib.sha256(data).hexdigest()


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
