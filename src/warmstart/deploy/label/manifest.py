"""What is finished: a shard has a record, a group and the whole have manifests, each written last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warmstart.deploy.label.job import RECORDS
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.shards import Shard, ShardGroup, read_json, write_json
from warmstart.errors import RunError

MANIFEST = "manifest.json"
READERS = 8
"""Files read in parallel, since an object store answers slowly."""
COUNTS = ("rows", "answered", "set_aside")
Manifest = dict[str, Any]
"""Counts of rows, what the window truncated, and files with their checksums; it holds no times, so that equal jobs
have equal manifests."""


def finished(out: Folder, group: ShardGroup) -> dict[str, dict[str, Any]]:
    """The records of those shards whose files are intact, by the name of the shard."""

    def intact_record(shard: Shard) -> dict[str, Any] | None:
        record: dict[str, Any] | None = read_json(out, f"{group.name}/{RECORDS}/{shard.name}.json")
        whole = record is not None and all(_as_written(out, group.name, *file) for file in record["files"].items())
        return record if whole else None

    with ThreadPoolExecutor(READERS) as pool:
        records = pool.map(intact_record, group.shards)
        return {record["shard"]: record for record in records if record is not None}


def close_group(
    out: Folder, group: ShardGroup, records: Mapping[str, dict[str, Any]], about: Mapping[str, Any]
) -> Manifest:
    """Write the manifest of a group, once every row is accounted for."""
    missing = [shard.name for shard in group.shards if shard.name not in records]
    if missing:
        raise RunError(f"{out.uri}/{group.name}: no answers of shard {missing[0]}; run the same command again")
    ordered = [records[shard.name] for shard in group.shards]
    files = {name: file for record in ordered for name, file in sorted(record["files"].items())}
    manifest = {**about, "group": group.name, **total(ordered), "files": files}
    if manifest["rows"] != group.rows or manifest["rows"] != manifest["answered"] + manifest["set_aside"]:
        raise RunError(f"{out.uri}/{group.name}: {manifest['rows']} rows are there, expected {group.rows} as planned")
    write_json(out, f"{group.name}/{MANIFEST}", manifest)
    return manifest


def close(out: Folder, names: Sequence[str], about: Mapping[str, Any]) -> Manifest:
    """Write the manifest of the whole, over those of the groups."""
    each = {name: read_json(out, f"{name}/{MANIFEST}") for name in names}
    groups = {name: {count: part[count] for count in COUNTS} for name, part in each.items()}
    manifest = {**about, **total(each.values()), "groups": groups}
    write_json(out, MANIFEST, manifest)
    return manifest


def total(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of row counts, and of what the window truncated."""
    listed = list(parts)
    cut = {name: sum(part["cut"][name] for part in listed) for name in ("rows", "rows_cut", "tokens", "tokens_cut")}
    return {**{name: sum(part[name] for part in listed) for name in COUNTS}, "cut": cut}


def _as_written(out: Folder, group: str, name: str, file: Mapping[str, Any]) -> bool:
    data = out.read(f"{group}/{name}")
    return data is not None and len(data) == file["bytes"] and hashlib.sha256(data).hexdigest() == file["sha256"]
