"""What is finished: a shard has a record, a group and the whole have manifests, each written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warmstart.deploy.label.job import RECORDS
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.shards import PLAN, Shard, ShardGroup, read_json, to_json, write_json
from warmstart.errors import RunError

MANIFEST = "manifest.json"
READERS = 8
"""Files read in parallel, since an object store answers slowly."""
COUNTS = ("rows", "answered", "set_aside")
RECORD_KEYS = {"shard", "rows", "answered", "set_aside", "cut", "files"}
Manifest = dict[str, Any]
"""Counts of rows, what the window truncated, and files with their checksums; it holds no times, so that equal jobs
have equal manifests."""


def finished(out: Folder, group: ShardGroup) -> dict[str, dict[str, Any]]:
    """The records of those shards whose files are intact, by the name of the shard; every file is read."""

    def intact_record(shard: Shard) -> dict[str, Any] | None:
        record = read_record(out, group.name, shard.name)
        if record is None or record["shard"] != shard.name or record["rows"] != shard.rows:
            return None
        files = record["files"].items()
        return record if all(out.checksum(f"{group.name}/{name}") == file for name, file in files) else None

    with ThreadPoolExecutor(READERS) as pool:
        records = pool.map(intact_record, group.shards)
        return {record["shard"]: record for record in records if record is not None}


def close_group(
    out: Folder, group: ShardGroup, records: Mapping[str, dict[str, Any]], about: Mapping[str, Any]
) -> Manifest:
    """Write the manifest of a group, once every row is accounted for.

    Args:
        records: Those of `finished`: what this process sees at `out`, which may not be what a worker wrote.
    """
    missing = [shard.name for shard in group.shards if shard.name not in records]
    if missing:
        raise RunError(
            f"{out.uri}/{group.name}: {len(missing)} of {len(group.shards)} shards are not there as workers wrote "
            f"them, such as {missing[0]}; is --out the same place on every machine? Run the same command again"
        )
    ordered = [records[shard.name] for shard in group.shards]
    files = {name: file for record in ordered for name, file in sorted(record["files"].items())}
    bad = {file["file"]: file["bad"] for file in group.files if "bad" in file}
    bad |= {name: why for record in ordered for name, why in record.get("bad_file", {}).items()}
    plan = out.checksum(f"{group.name}/{PLAN}")
    manifest = {**about, "group": group.name, **total(ordered), "bad_files": bad, "plan": plan, "files": files}
    if manifest["rows"] != group.rows or manifest["rows"] != manifest["answered"] + manifest["set_aside"]:
        raise RunError(f"{out.uri}/{group.name}: {manifest['rows']} rows are there, expected {group.rows} as planned")
    if group.shards:
        out.settle(group.name, f"{group.name}/{RECORDS}")
    write_json(out, f"{group.name}/{MANIFEST}", manifest)
    return manifest


def close(out: Folder, names: Sequence[str], about: Mapping[str, Any]) -> Manifest:
    """Write the manifest of the whole, over those of the groups."""
    each = {name: read_json(out, f"{name}/{MANIFEST}") for name in names}
    groups = {
        name: {**{count: part[count] for count in COUNTS}, "manifest": out.checksum(f"{name}/{MANIFEST}")}
        for name, part in each.items()
    }
    bad = {name: why for part in each.values() for name, why in part["bad_files"].items()}
    manifest = {**about, **total(each.values()), "bad_files": bad, "plan": out.checksum(PLAN), "groups": groups}
    manifest["seal"] = seal(manifest)
    out.settle(*names)
    write_json(out, MANIFEST, manifest)
    return manifest


def total(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of row counts, and of what the window truncated."""
    listed = list(parts)
    cut = {name: sum(part["cut"][name] for part in listed) for name in ("rows", "rows_cut", "tokens", "tokens_cut")}
    return {**{name: sum(part[name] for part in listed) for name in COUNTS}, "cut": cut}


def seal(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest without its seal."""
    return hashlib.sha256(to_json({name: value for name, value in manifest.items() if name != "seal"})).hexdigest()


def read_record(out: Folder, group: str, shard: str) -> dict[str, Any] | None:
    """The record of a shard; None where there is none, or it is damaged."""
    data = out.read(f"{group}/{RECORDS}/{shard}.json")
    try:
        record: dict[str, Any] = json.loads(data or b"null")
        return record if data == to_json(record) and set(record) >= RECORD_KEYS else None
    except (ValueError, TypeError):
        return None
