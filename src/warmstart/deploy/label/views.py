"""Before a job starts: whether the driver and every machine of the cluster see the same files."""

from __future__ import annotations

import uuid
from typing import Any

from warmstart.deploy.label.locations import Folder
from warmstart.errors import ClusterError, OutageError, RunError

PATIENCE = 10.0
"""Seconds until what one machine wrote is seen by another; a network disk may be slow to show it."""


def check_same_view(ray: Any, out: Folder, folder: Folder, name: str) -> None:
    """Refuse an output or an input that a machine sees otherwise than the driver does.

    Each machine reads at `out` what the driver wrote, and writes what the driver reads.

    Args:
        name: A file of the input.
    """
    token = uuid.uuid4().hex
    probe = f".{token}.probe"
    out.write(probe, token.encode())
    size = folder.existing(name).bytes
    nodes = _alive(ray)
    views = _Views(ray, out, folder, name, token)
    try:
        asked = {node: views.ask(node) for node in nodes}
        for node, answer in asked.items():
            view = views.get(node, answer)
            if view is not None and view["error"]:
                # An outage of the storage is waited out here, as everywhere; then the machine looks once more.
                out.existing(probe)
                folder.existing(name)
                view = views.get(node, views.ask(node))
            if view is not None:
                _compare(nodes[node], view, views.out, size, (token, node))
    finally:
        for file in (probe, *(f".{token}.{node}.probe" for node in nodes)):
            out.remove(file)


def _alive(ray: Any) -> dict[str, str]:
    """The addresses of the machines that can work, by their ids."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    return {node["NodeID"]: node["NodeManagerAddress"] for node in nodes}


class _Views:
    """What machines of the cluster see, each asked for it."""

    def __init__(self, ray: Any, out: Folder, folder: Folder, name: str, token: str) -> None:
        self.ray = ray
        self.out, self.folder = (Folder(place.uri, PATIENCE, place.anchor) for place in (out, folder))
        self.probe = (name, token)

    def ask(self, node: str) -> Any:
        """Start to look around on a machine."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node, soft=False)
        look = self.ray.remote(look_around).options(num_cpus=0, scheduling_strategy=place)
        return look.remote(self.out, self.folder, *self.probe, node)

    def get(self, node: str, answer: Any) -> dict[str, Any] | None:
        """What a machine sees; None where it has left the cluster meanwhile, so that it does not matter."""
        try:
            view: dict[str, Any] = self.ray.get(answer)
        except self.ray.exceptions.RayError as error:
            if (where := _alive(self.ray).get(node)) is None:
                return None
            reason = " ".join(str(error).split())[:300]
            raise ClusterError(
                f"--ray: the machine {where} did not answer ({reason}); run the same command again"
            ) from None
        return view


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
