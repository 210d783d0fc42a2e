"""What is finished: shards by their records, groups and the whole by manifests that are written last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warmstart.deploy.label.job import RECORDS
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.shards import Group, Shard, read_json, write_json
from warmstart.errors import RunError

MANIFEST = "manifest.json"
READERS = 8
"""Files looked at at once, since those of an object store come slowly."""
COUNTS = ("rows", "answered", "set_aside")
Manifest = dict[str, Any]
"""Counts of rows, what the window cut, and files with their checksums; holds no times, so that it is the same each
time."""


def finished(out: Folder, group: Group) -> dict[str, dict[str, Any]]:
    """The records of those shards whose files are there as they were written, by the shard's name."""

    def look(shard: Shard) -> dict[str, Any] | None:
        record: dict[str, Any] | None = read_json(out, f"{group.name}/{RECORDS}/{shard.name}.json")
        whole = record is not None and all(_as_written(out, group.name, *one) for one in record["files"].items())
        return record if whole else None

    with ThreadPoolExecutor(READERS) as pool:
        return {one["shard"]: one for one in pool.map(look, group.shards) if one is not None}


def close_group(out: Folder, group: Group, records: Mapping[str, dict[str, Any]], about: Mapping[str, Any]) -> Manifest:
    """Write a group's manifest, when every row is in it."""
    missing = [shard.name for shard in group.shards if shard.name not in records]
    if missing:
        raise RunError(f"{out.uri}/{group.name}: no answers of shard {missing[0]}; run the same command again")
    ordered = [records[shard.name] for shard in group.shards]
    files = {name: told for record in ordered for name, told in sorted(record["files"].items())}
    manifest = {**about, "group": group.name, **total(ordered), "files": files}
    if manifest["rows"] != group.rows or manifest["rows"] != manifest["answered"] + manifest["set_aside"]:
        raise RunError(f"{out.uri}/{group.name}: {manifest['rows']} rows are there, {group.rows} were planned")
    write_json(out, f"{group.name}/{MANIFEST}", manifest)
    return manifest


def close(out: Folder, names: Sequence[str], about: Mapping[str, Any]) -> Manifest:
    """Write the manifest of the whole, over those of the groups."""
    each = {name: read_json(out, f"{name}/{MANIFEST}") for name in names}
    groups = {name: {count: one[count] for count in COUNTS} for name, one in each.items()}
    manifest = {**about, **total(each.values()), "groups": groups}
    write_json(out, MANIFEST, manifest)
    return manifest


def total(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of rows added up, and what the window cut of them."""
    listed = list(parts)
    cut = {name: sum(one["cut"][name] for one in listed) for name in ("rows", "rows_cut", "tokens", "tokens_cut")}
    return {**{name: sum(one[name] for one in listed) for name in COUNTS}, "cut": cut}


def _as_written(out: Folder, group: str, name: str, told: Mapping[str, Any]) -> bool:
    data = out.read(f"{group}/{name}")
    return data is not None and len(data) == told["bytes"] and hashlib.sha256(data).hexdigest() == told["sha256"]
