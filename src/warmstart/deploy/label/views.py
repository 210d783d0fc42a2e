"""Before a job starts: whether the driver and every machine of the cluster see the same files."""

from __future__ import annotations

import uuid
from typing import Any

from warmstart.deploy.label.locations import Folder
from warmstart.errors import OutageError, RunError

PATIENCE = 10.0
"""Seconds until what one machine wrote is seen by another; a network disk may be slow to show it."""


def check_same_view(ray: Any, out: Folder, folder: Folder, name: str) -> None:
    """Refuse an output or an input that a machine sees otherwise than the driver does.

    Each machine reads at `out` what the driver wrote, and writes what the driver reads.

    Args:
        name: A file of the input.
    """
    out, folder = (Folder(place.uri, PATIENCE, place.anchor) for place in (out, folder))
    token = uuid.uuid4().hex
    probe = f".{token}.probe"
    out.write(probe, token.encode())
    size = folder.existing(name).bytes
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}
    views = {}
    try:
        for node in nodes:
            place = NodeAffinitySchedulingStrategy(node, soft=False)
            look = ray.remote(look_around).options(num_cpus=0, scheduling_strategy=place)
            views[node] = look.remote(out, folder, name, token, node)
        for node, view in views.items():
            where = nodes[node]["NodeManagerAddress"]
            _compare(where, ray.get(view), out, size, (token, node))
    finally:
        for file in (probe, *(f".{token}.{node}.probe" for node in views)):
            out.remove(file)


def look_around(out: Folder, folder: Folder, name: str, token: str, node: str) -> dict[str, Any]:
    """On a machine: read what the driver wrote, write something for it, and look at a file of the input."""
    view: dict[str, Any] = {"read": "", "size": None, "error": ""}
    try:
        out.write(f".{token}.{node}.probe", node.encode())
        with out.open(f".{token}.probe") as file:
            view["read"] = file.readall().decode()
        view["size"] = folder.existing(name).bytes
    except Exception as error:
        view["error"] = str(error)
    return view


def _compare(where: str, view: dict[str, Any], out: Folder, size: int, probe: tuple[str, str]) -> None:
    token, node = probe
    advice = "give a URI, or a disk that all of them share under the same path"
    if view["error"]:
        raise RunError(f"--ray: the machine {where} does not see what this one sees ({view['error']}); {advice}")
    try:
        with out.open(f".{token}.{node}.probe") as file:
            same = file.readall().decode() == node and view["read"] == token
    except OutageError:
        same = False
    if not same:
        raise RunError(f"--out {out.uri}: is another place on the machine {where} than here; {advice}")
    if view["size"] != size:
        raise RunError(f"--file: the machine {where} sees {view['size']} bytes of it, this one {size}; {advice}")
