"""The results page of the proof with a cluster of hosts."""

from __future__ import annotations

from typing import Any


def page(figures: dict[str, Any], parts: dict[str, dict[str, Any]]) -> str:
    """The page's text, from the figures of both parts."""
    store, disk = parts["store"], parts["disk"]
    return (
        f"Through **{figures['node_kills']} killed nodes, {figures['partitions']} partitions and {figures['outages']} "
        f"outages of the store**, {figures['lost']} rows were lost, {figures['doubled']} labelled twice, and "
        f"{figures['different']} files differ from those of an undisturbed job.\n\n"
        f"Each node of a Ray cluster has network, process and mount namespaces of its own, and a virtual cable to one "
        f"switch: a head, {figures['nodes']} nodes that work, a host for a second driver, and one for an S3-compatible "
        f"server. A corpus of {figures['rows']:,} rows in JSONL, gzipped JSONL, CSV and Parquet files, broken rows "
        "among them, is labelled with a tiny model: once undisturbed, then again and again into new folders, until "
        "all of this has happened while shards were being labelled:\n\n"
        "| | |\n| --- | ---: |\n"
        "| nodes killed: SIGKILL to all processes of a host at once, then a new node joins "
        f"| {figures['node_kills']} |\n"
        f"| partitions: no packet passes for 3 to 8 s, or for 75 to 90 s | {figures['partitions']} |\n"
        f"| outages of the S3-compatible server, of 2 to 40 s | {figures['outages']} |\n"
        f"| drivers that label into one folder of the object store at the same time | {figures['drivers']} |\n"
        f"| nodes that left by themselves, since the head had given them up | {figures['nodes_left']} |\n"
        f"| drivers that ended with a message and were started again | {figures['drivers_resumed']} |\n"
        f"| drivers that ended without one | {figures['drivers_crashed']} |\n"
        f"| labelling jobs compared | {figures['jobs']} |\n"
        f"| rows lost | {figures['lost']} |\n"
        f"| duplicate rows | {figures['doubled']} |\n"
        f"| good rows set aside | {figures['good_rows_aside']} |\n"
        f"| files that differ from those of the undisturbed job, manifests among them | {figures['different']} |\n\n"
        "The partitions: a node without any network, shorter and longer than the head waits for it; a node that "
        "reaches the store, but not the head with the first driver; the second driver's host without any network, "
        f"shorter and longer than it waits for the head. {_about_disk(disk, store)}\n\n"
        "The S3-compatible server is `moto_server`, behind a process that holds all connections and is killed and "
        "restarted, since moto keeps its objects in memory. All hosts share one kernel and one clock: clocks that "
        "disagree, and a machine that loses what it has not flushed, are not part of this."
    )


def _about_disk(disk: dict[str, Any], store: dict[str, Any]) -> str:
    if isinstance(disk["slow_disk"], str):
        return f"No slow disk: {disk['slow_disk']}."
    free, slow = (speed / 1e6 for speed in disk["slow_disk"])
    return (
        f"{disk['node_kills']} of the kills are beside a slow disk: one driver labels into a folder on a disk that a "
        f"cgroup limits to 1 MiB per second, to read and to write (measured: {slow:.1f} MB per second flushed to it, "
        f"{free:.1f} without the limit). The other {store['node_kills']} are beside partitions and outages."
    )
