"""A labelled corpus read again: every file as it was written, every count as it adds up, each difference named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warmstart.deploy.label.job import LOCK, RECORDS
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.manifest import COUNTS, MANIFEST, READERS, read_record, seal
from warmstart.deploy.label.shards import PLAN, ShardGroup, fingerprint, read_group, to_json
from warmstart.errors import OutageError

ABOUT_GROUPS = ("groups", "left_out")
"""What the plan of the whole holds beside what every manifest repeats."""


def corpus_damages(out: Folder, inputs: Folder | None = None) -> list[str]:
    """All that is not as it was when the labelling finished, a line each.

    Args:
        inputs: The corpus that was labelled, to compare its files with those of then.
    """
    manifest, damages = _read_sealed(out, MANIFEST)
    if manifest is None:
        return damages
    if manifest.get("seal") != seal(manifest):
        return [f"{MANIFEST}: was changed: its content does not match its own checksum"]
    plan, problems = _read_sealed(out, PLAN)
    damages += problems or _differs(out, PLAN, manifest["plan"])
    about = {name: value for name, value in (plan or {}).items() if name not in ABOUT_GROUPS}
    rows = dict.fromkeys(COUNTS, 0)
    for name, listed in manifest["groups"].items():
        damages += _differs(out, f"{name}/{MANIFEST}", listed["manifest"])
        try:
            group = read_group(out, name)
        except (ValueError, KeyError, TypeError):
            group = None
        if group is None:
            damages.append(f"{name}/{PLAN}: is missing or damaged")
            continue
        damages += group_damages(out, group, about)
        rows = {count: rows[count] + listed[count] for count in COUNTS}
        if inputs is not None:
            damages += input_damages(inputs, group)
    damages += _sums(MANIFEST, manifest)
    damages += _outside_groups(out, set(manifest["groups"]))
    if rows != {count: manifest[count] for count in COUNTS}:
        damages.append(f"{MANIFEST}: its counts are not the sums over its groups")
    if inputs is not None and plan is not None:
        damages += _new_inputs(inputs, plan)
    return list(dict.fromkeys(damages))


def group_damages(out: Folder, group: ShardGroup, about: Mapping[str, Any]) -> list[str]:
    """All that is not as the manifest of a group says; every file is read."""
    name = f"{group.name}/{MANIFEST}"
    manifest, damages = _read_sealed(out, name)
    if manifest is None:
        return damages
    if any(manifest.get(key) != value for key, value in about.items()) or manifest.get("group") != group.name:
        damages.append(f"{name}: was changed: it differs from {PLAN}")
    damages += _differs(out, f"{group.name}/{PLAN}", manifest.get("plan"))
    listed = manifest.get("files", {})
    with ThreadPoolExecutor(READERS) as pool:
        files = [f"{group.name}/{file}" for file in listed]
        damages += [line for lines in pool.map(_differs, [out] * len(files), files, listed.values()) for line in lines]
    records = {shard.name: read_record(out, group.name, shard.name) for shard in group.shards}
    for shard in group.shards:
        record = records[shard.name]
        if record is None or record["shard"] != shard.name or record["rows"] != shard.rows:
            damages.append(f"{group.name}/{RECORDS}/{shard.name}.json: is missing or damaged")
        elif any(listed.get(file) != value for file, value in record["files"].items()):
            damages.append(f"{group.name}/{RECORDS}/{shard.name}.json: lists other files than {name}")
        elif not damages:
            damages += _row_counts(out, group.name, record)
    whole = [record for record in records.values() if record is not None]
    sums = {count: sum(record[count] for record in whole) for count in COUNTS}
    if len(whole) == len(records) and any(sums[count] != manifest.get(count) for count in COUNTS):
        damages.append(f"{name}: its counts are not the sums over its {RECORDS}")
    return damages + _sums(name, manifest) + list(_strangers(out, group.name, listed, set(records)))


def input_damages(inputs: Folder, group: ShardGroup) -> list[str]:
    """Input files that are not what they were when they were planned."""
    damages = []
    for before in group.files:
        try:
            now = fingerprint(inputs, before["file"])
        except OutageError:
            damages.append(f"input {before['file']}: is missing")
            continue
        if changed := [key for key in now if now[key] != before.get(key)]:
            what = ", ".join(f"{key} is {now[key]}, was {before.get(key)}" for key in changed)
            damages.append(f"input {before['file']}: was changed ({what})")
    return damages


def _new_inputs(inputs: Folder, plan: Mapping[str, Any]) -> list[str]:
    known = {*plan["left_out"], *(file for files in plan["groups"].values() for file in files)}
    return [f"input {entry.name}: is new" for entry in inputs.files() if entry.name not in known]


def _read_sealed(out: Folder, name: str) -> tuple[dict[str, Any] | None, list[str]]:
    """A JSON file of ours, or what is wrong with it."""
    data = out.read(name)
    if data is None:
        return None, [f"{name}: is missing"]
    try:
        value = json.loads(data)
        if isinstance(value, dict) and to_json(value) == data:
            return value, []
    except (ValueError, RecursionError):
        pass
    return None, [f"{name}: was changed: it is not as warmstart writes it"]


def _differs(out: Folder, name: str, listed: Any) -> list[str]:
    actual = out.checksum(name)
    if actual is None:
        return [f"{name}: is missing"]
    return [] if actual == listed else [f"{name}: was changed: found {actual}, its manifest lists {listed}"]


def _row_counts(out: Folder, group: str, record: Mapping[str, Any]) -> Iterator[str]:
    """Files of a shard whose number of rows is not that of its record."""
    import pyarrow.parquet as pq

    for file in record["files"]:
        with out.open(f"{group}/{file}") as raw, pq.ParquetFile(raw) as parquet:
            rows = parquet.metadata.num_rows
        expected = record["set_aside" if file.endswith(".aside.parquet") else "answered"]
        if rows != expected:
            yield f"{group}/{file}: found {rows} rows, expected {expected}"


def _sums(name: str, manifest: Mapping[str, Any]) -> list[str]:
    rows, answered, aside = (manifest.get(count) for count in COUNTS)
    if not all(isinstance(count, int) for count in (rows, answered, aside)) or rows != (answered or 0) + (aside or 0):
        return [f"{name}: found {rows} rows, but {answered} answered and {aside} set aside"]
    return []


def _strangers(out: Folder, group: str, listed: Mapping[str, Any], shards: set[str]) -> Iterator[str]:
    """Files of a group that no manifest knows: who reads the folder would take them for answers."""
    known = {f"{group}/{name}" for name in (MANIFEST, PLAN, *listed)}
    known |= {f"{group}/{RECORDS}/{shard}.json" for shard in shards}
    for entry in out.files(group):
        if entry.name not in known and not entry.name.rpartition("/")[2].startswith("."):
            yield f"{entry.name}: no manifest lists it"


def _outside_groups(out: Folder, groups: set[str]) -> Iterator[str]:
    """Files beside the groups that are not ours: who reads all of the folder would take them for answers."""
    for entry in out.files():
        first = entry.name.partition("/")[0]
        if first not in {MANIFEST, PLAN, LOCK, *groups} and not first.startswith("."):
            yield f"{entry.name}: no manifest lists it"
