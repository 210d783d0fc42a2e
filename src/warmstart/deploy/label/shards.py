"""The plan: groups of files, cut into shards of a number of rows, recorded before anything is answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from warmstart.data.source import FileColumn, Source, missing_column
from warmstart.deploy.label.bad_files import STOP, BadFileError, bad_files
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.kept_kinds import kinds_in_rows, kinds_in_schema
from warmstart.deploy.label.locations import Entry, Folder
from warmstart.deploy.label.records import check_format, text_records
from warmstart.errors import DataError, Location, RecipeError, RunError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

PLAN = "plan.json"
LOOKED = 100
"""Rows of the first file that are read to find its columns."""


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of one file, answered and published together.

    Attributes:
        name: What its files are called: the number of the input file, and the first row.
        file: The input file, relative to the folder that is labelled.
        first: The number of its first row in the file, from 0.
        rows: How many there are.
        start: Byte offset of the first row in the decompressed file; 0 in Parquet.
    """

    name: str
    file: str
    first: int
    rows: int
    start: int


@dataclass(frozen=True)
class ShardGroup:
    """The shards of some input files, and the size and time of those files when they were planned."""

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
    hidden = [entry for entry in entries if any(part.startswith((".", "_")) for part in entry.name.split("/"))]
    chosen = [entry for entry in entries if entry not in hidden]
    for entry in chosen:
        check_format(entry.name, source)
    if not chosen:
        problem = "no files to label. Expected .parquet, .jsonl, .csv or .tsv files"
        raise DataError(problem, "no-file", location=Location(where))
    return chosen, [entry.name for entry in hidden]


def cut(
    work: LabelJob, group: str, files: Sequence[tuple[int, str]], columns: Sequence[FileColumn], size: int
) -> ShardGroup:
    """Cut the files of a group into shards of `size` rows, the last of each file with what is left.

    A file that cannot be read has no shards, and the reason in `bad`; or is an error, where the job stops at one.
    """
    folder = work.folder
    shards: list[Shard] = []
    about = []
    for number, name in files:
        before = fingerprint(folder, name)
        try:
            own = list(_cut(folder, number, name, work.source, columns, size))
        except BadFileError as error:
            if work.on_bad_file == STOP:
                raise
            about.append({**before, "rows": 0, "bad": error.problem})
            continue
        shards += own
        about.append({**before, "rows": sum(shard.rows for shard in own)})
    return ShardGroup(group, tuple(about), tuple(shards))


def _cut(
    folder: Folder, number: int, name: str, source: Source, columns: Sequence[FileColumn], size: int
) -> Iterator[Shard]:
    if check_format(name, source) == "parquet":
        rows = parquet_rows(folder, name, source, columns)
        for first in range(0, rows, size):
            yield Shard(f"{number:06d}-{first:012d}", name, first, min(size, rows - first), 0)
        return
    first = rows = start = position = 0
    with bad_files(name, "compression"):
        for record in text_records(folder, name, source):
            rows += 1
            position += record.size
            if rows == size:
                yield Shard(f"{number:06d}-{first:012d}", name, first, rows, start)
                first, rows, start = first + rows, 0, position
    if rows:
        yield Shard(f"{number:06d}-{first:012d}", name, first, rows, start)


def parquet_rows(folder: Folder, name: str, source: Source, columns: Sequence[FileColumn]) -> int:
    """How many rows a Parquet file has, once its columns are known to be there."""
    rows, schema = _parquet_facts(folder, name)
    for column in columns:
        if column.name not in schema.names:
            raise missing_column(column, schema.names, source).at(Location(name))
    return rows


def check_first(
    folder: Folder, names: Iterable[str], source: Source, columns: Sequence[FileColumn], keep: Mapping[str, str]
) -> dict[str, str]:
    """Refuse a corpus whose first readable file lacks a column: all its rows would be set aside.

    Returns:
        The kept columns with their kinds, as in that file.
    """
    bad: BadFileError | None = None
    for name in names:
        try:
            return check_columns(folder, name, source, columns, keep)
        except BadFileError as error:
            bad = bad or error
    if bad:
        raise bad
    return kinds_in_rows([], keep)


def check_columns(
    folder: Folder, name: str, source: Source, columns: Sequence[FileColumn], keep: Mapping[str, str]
) -> dict[str, str]:
    """Refuse a file that lacks a column; returns the kept columns with their kinds."""
    schema, items = None, []
    if check_format(name, source) == "parquet":
        schema = _parquet_facts(folder, name)[1]
        names = list(schema.names)
    else:
        # The first rows may be broken themselves.
        with bad_files(name, "compression"):
            items = [record.item for record in islice(text_records(folder, name, source), LOOKED) if record.item]
        names = list(dict.fromkeys(key for item in items for key in item))
        if not names:
            return kinds_in_rows([], keep)
    for column in columns:
        if column.target.required and column.name not in names:
            raise missing_column(column, names, source).at(Location(name))
    for kept in keep:
        if kept not in names:
            raise RecipeError(f"--keep-column {kept}: {name} has no such column; {nearest(kept, names)}")
    return kinds_in_rows(items, keep) if schema is None else kinds_in_schema(schema, keep)


def _parquet_facts(folder: Folder, name: str) -> tuple[int, pa.Schema]:
    """How many rows a Parquet file has, and its columns."""
    import pyarrow.parquet as pq

    with bad_files(name, "parquet"), folder.open(name) as raw, pq.ParquetFile(raw) as file:
        return int(file.metadata.num_rows), file.schema_arrow


def fingerprint(folder: Folder, name: str) -> dict[str, Any]:
    """The size of a file, when it was last written, and its ETag in an object store, by which a change is noticed."""
    entry, etag = folder.existing(name), folder.etag(name)
    return {"file": name, "bytes": entry.bytes, "modified": entry.modified, **({"etag": etag} if etag else {})}


def check_unchanged(folder: Folder, group: ShardGroup) -> None:
    """Refuse to resume with files that changed after they were planned."""
    for before in group.files:
        now = fingerprint(folder, before["file"])
        if changed := [name for name in now if now[name] != before[name]]:
            what = ", ".join(f"{name} is {now[name]}, was {before[name]}" for name in changed)
            raise RunError(
                f"{before['file']} was changed since {group.name} was planned ({what}); put the old file back, or "
                "label the new ones into another --out"
            )


def settle(out: Folder, about: Mapping[str, Any]) -> None:
    """Record the plan, or refuse to resume where another one was recorded."""
    if (there := read_json(out, PLAN)) is None:
        write_json(out, PLAN, about)
        return
    for name in sorted({*there, *about}):
        if there.get(name) != about.get(name):
            raise RunError(
                f"{out.uri}: begun with {name} {_short(there.get(name))}, now it is {_short(about.get(name))}; "
                "use the same settings, or choose another --out"
            )


def write_group(out: Folder, group: ShardGroup) -> None:
    """Record the shards of a group."""
    write_json(out, f"{group.name}/{PLAN}", asdict(group))


def read_group(out: Folder, name: str) -> ShardGroup | None:
    """A group as it was planned; None if it was not yet."""
    plan = read_json(out, f"{name}/{PLAN}")
    if plan is None:
        return None
    return ShardGroup(plan["name"], tuple(plan["files"]), tuple(Shard(**shard) for shard in plan["shards"]))


def read_json(folder: Folder, name: str) -> Any:
    """The contents of a JSON file; None where there is no such file."""
    data = folder.read(name)
    return None if data is None else json.loads(data)


def write_json(folder: Folder, name: str, value: Any) -> str:
    """Write a JSON file atomically; returns its SHA-256."""
    data = to_json(value)
    folder.write(name, data)
    return hashlib.sha256(data).hexdigest()


def to_json(value: Any) -> bytes:
    """A JSON file; the same value is the same bytes."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
