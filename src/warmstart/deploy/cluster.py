"""Ray: one started here, which only this machine reaches, or a cluster by its address."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from warmstart.errors import MissingExtra, RunError

LOCAL = "local"
"""The address that stands for a Ray of our own."""
TRIES = 3
"""How often a Ray of our own is started: another one that starts at the same time may take the port it had found."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
"""What every Ray is told before it is imported: no telemetry, and nobody gets in without a token."""
OWN = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""What a Ray of our own is told, whatever was said before; the second keeps it to loopback, as on other systems."""


@contextmanager
def connected(address: str = LOCAL, cpus: int | None = None, store: int | None = None) -> Iterator[Any]:
    """The module `ray`, connected for as long as the block lasts; a Ray of our own ends with it.

    A cluster is asked with the token that Ray finds by itself, in RAY_AUTH_TOKEN or ~/.ray/auth_token.

    Args:
        address: `local`, or where a cluster is, as `ray://…` or `host:port`.
        cpus: Of a Ray of our own; None for as many as there are.
        store: Bytes of the object store of a Ray of our own; None for a third of the memory.
    """
    ray = import_ray(own=address == LOCAL)
    if ray.is_initialized():
        raise RunError("Ray is running in this process already; call ray.shutdown() first")
    asked: dict[str, Any] = {"num_cpus": cpus, "object_store_memory": store, "include_dashboard": False}
    _start(ray, address, asked if address == LOCAL else {}, TRIES if address == LOCAL else 1)
    try:
        yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, address: str, asked: dict[str, Any], tries: int) -> None:
    """Connect, after a Ray of our own was started."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **asked)
    except (ConnectionError, RuntimeError, ValueError) as error:
        ray.shutdown()
        if tries > 1:
            _start(ray, address, asked, tries - 1)
            return
        reason = " ".join(str(error).split())[:300]
        raise RunError(
            f"--ray {address}: {reason}. Expected the address of a running cluster, with its token in "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token; without an address, Ray is started here"
        ) from None


def import_ray(own: bool) -> Any:
    """The module `ray`, told what it reads when it is imported.

    Args:
        own: Ray is to be started here; then it listens on loopback alone, with a token that nobody else knows.
    """
    if own:
        untold = {name: value for name, value in OWN.items() if os.environ.get(name) != value}
        if untold and "ray" in sys.modules:
            # Ray's processes would be told, and the part of it in this one not: they could not speak.
            said = " ".join(f"{name}={value}" for name, value in untold.items())
            raise RunError(
                "ray was imported before it could be told to keep to loopback and ask for a token; set "
                f"{said} before this process starts, or label in another one (warmstart predict --ray local)"
            )
        os.environ.update(untold)
        # Ray's workers else give way to every other process of the machine.
        os.environ.setdefault("RAY_worker_niceness", "0")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise MissingExtra("Ray is not installed: pip install 'warmstart[ray]'") from None
    return ray
