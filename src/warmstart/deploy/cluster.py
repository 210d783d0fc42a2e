"""Ray: started on this machine and reachable from it alone, or a cluster by its address."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from warmstart.deploy.head_watch import host_and_port, reach, watched
from warmstart.errors import ClusterError, MissingExtraError, RunError

LOCAL = "local"
"""The address that stands for a Ray started on this machine."""
TRIES = 3
"""How often a local Ray is started: another one that starts at the same time may take its port."""
CONNECT_SECONDS = 10
"""How long the head of a cluster may take to answer."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
"""Environment of every Ray, set before it is imported: no telemetry, and no access without a token."""
OWN = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Environment of a local Ray, whatever was set before; the second keeps it on loopback, as on other systems."""


@contextmanager
def connected(address: str = LOCAL, cpus: int | None = None, store: int | None = None) -> Iterator[ModuleType]:
    """The module `ray`, connected for the duration of the block; a local Ray ends with it.

    For a cluster, Ray finds its token by itself, in RAY_AUTH_TOKEN or ~/.ray/auth_token.

    Args:
        address: `local`, or the address of a cluster, as `ray://…` or `host:port`.
        cpus: CPUs of a local Ray; None for all.
        store: Bytes of the object store of a local Ray; None for a third of the memory.
    """
    ray = import_ray(own=address == LOCAL)
    if ray.is_initialized():
        raise RunError("Ray is running in this process already; call ray.shutdown() first")
    _check_head(address)
    options: dict[str, object] = {"num_cpus": cpus, "object_store_memory": store, "include_dashboard": False}
    _start(ray, address, options if address == LOCAL else {}, TRIES if address == LOCAL else 1)
    try:
        with watched(ray.get_runtime_context().gcs_address if address == LOCAL else address):
            yield ray
    finally:
        ray.shutdown()


def _check_head(address: str) -> None:
    """Refuse an address where nobody listens: Ray would end this process, with a page of log, after a minute."""
    place = host_and_port(address)
    if place is None:
        return  # `local`, `auto`, or whatever Ray may say of it
    try:
        reach(place, CONNECT_SECONDS)
    except OSError as error:
        raise ClusterError(
            f"--ray {address}: no Ray head answers there ({error}); start it, or give the address that `ray status` "
            "shows; without an address, Ray is started here"
        ) from None


def _start(ray: ModuleType, address: str, options: dict[str, object], tries: int) -> None:
    """Start a local Ray, or connect to a cluster."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **options)
    except Exception as error:  # a node that starts too slowly is a bare Exception of Ray's
        ray.shutdown()
        if tries > 1:
            _start(ray, address, options, tries - 1)
            return
        reason = " ".join(str(error).split())[:300].rstrip(".")
        if address == LOCAL:
            raise ClusterError(
                f"Ray did not start on this machine in {TRIES} attempts: {reason}. If the machine is busy, run the "
                "same command again later"
            ) from None
        raise ClusterError(
            f"--ray {address}: {reason}. Expected the address of a running cluster, with its token in "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token; without an address, Ray is started here"
        ) from None


def import_ray(own: bool) -> ModuleType:
    """The module `ray`, with the environment it reads at import set.

    Args:
        own: Ray will be started here; then it listens on loopback alone, with a token that nobody else knows.
    """
    if own:
        missing = {name: value for name, value in OWN.items() if os.environ.get(name) != value}
        if missing and "ray" in sys.modules:
            # Ray's processes would have this environment and this process would not: they could not talk.
            settings = " ".join(f"{name}={value}" for name, value in missing.items())
            raise RunError(
                "ray was imported before it could be set to listen on loopback and to require a token; set "
                f"{settings} before this process starts, or label in another one (warmstart predict --ray local)"
            )
        os.environ.update(missing)
        # Otherwise Ray's workers yield to every other process of the machine.
        os.environ.setdefault("RAY_worker_niceness", "0")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise MissingExtraError("Ray is not installed: pip install 'warmstart[ray]'") from None
    module: ModuleType = ray
    return module
