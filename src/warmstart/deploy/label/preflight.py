"""Checks before a corpus is labelled: what cannot work is refused in seconds, with what to type instead."""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from warmstart.data.compression import compression_of
from warmstart.deploy.label.locations import Entry, Folder
from warmstart.errors import DiskError, OutageError, RunError
from warmstart.runtime.environment import free_memory, usable_cores

BESIDE = 600_000_000
"""Bytes of memory that a worker needs beside its model: Python, torch, the texts and answers of a shard."""
COPIES = 2
"""How many copies of the weights are in memory while they are loaded."""
STORE = 100_000_000
"""Bytes of the object store of a local Ray: only names and records of shards go through it."""
UNPACKED = 4
"""How much larger the text of a compressed file is."""
SECONDS = 3


def worker_memory(run: Path) -> int:
    """Bytes that a worker with a run's model needs."""
    model = run / "model" if (run / "model").is_dir() else run
    return COPIES * sum(path.stat().st_size for path in model.rglob("*.safetensors")) + BESIDE


def check_here(workers: int | None, threads: int, memory: int, cpus: int | None, store: int) -> int:
    """How many workers to start on this machine, if they fit.

    Args:
        memory: Bytes that each worker needs.
        cpus: CPUs that may be used; None for all.
    """
    cores = cpus or usable_cores()
    count = check_cpus("this machine", cores, workers, threads)
    _check_memory("this machine", free_memory(), count, memory, store)
    shared = Path("/dev/shm")
    if shared.is_dir() and (free := shutil.disk_usage(shared).free) < store:
        raise RunError(
            f"--ray local: found {_size(free)} of shared memory (/dev/shm), Ray's object store needs {_size(store)}; "
            "give the container more (docker run --shm-size 1g)"
        )
    return count


def check_cpus(where: str, cores: int, workers: int | None, threads: int) -> int:
    """How many workers to start, with one CPU left to hand out the shards."""
    count = workers or (cores - 1) // threads
    needed = max(count, 1) * threads + 1
    if needed > cores:
        most = (cores - 1) // threads
        advice = f"set --workers {most}" if most else "use a larger machine, or drop --ray to answer in one process"
        raise RunError(
            f"--ray: found {cores} CPU{'s' if cores != 1 else ''} on {where}, {max(count, 1)} worker(s) of {threads} "
            f"need {needed}: one is left to hand out the shards; {advice}"
        )
    return count


def check_cluster(resources: dict[str, float], workers: int | None, threads: int, gpus: float, memory: int) -> int:
    """How many workers to start on a cluster, if they fit into the resources it reports."""
    count = check_cpus("the cluster", int(resources.get("CPU", 0)), workers, threads)
    if gpus and gpus * count > resources.get("GPU", 0):
        raise RunError(
            f"--gpus-per-worker {gpus:g}: found {resources.get('GPU', 0):g} GPUs in the cluster, {count} workers need "
            f"{gpus * count:g}; set fewer --workers"
        )
    _check_memory("the cluster", int(resources.get("memory", 0)), count, memory, 0)
    return count


def check_address(address: str) -> None:
    """Refuse an address where nobody answers: Ray itself would wait for minutes."""
    if address == "auto":
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or not port:
        raise RunError(f"--ray {address}: expected local, auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, port), SECONDS).close()
    except OSError as error:
        raise RunError(
            f"--ray {address}: nobody answers there ({error}); is the cluster up, and its port open to you? "
            "`ray status` on its head node tells; `--ray local` starts one here"
        ) from None


def check_out(out: Folder, inputs: Sequence[Entry]) -> None:
    """Refuse an output folder that cannot be written to, or has too little room for the texts with their answers."""
    probe = f".{uuid.uuid4().hex}.probe"
    try:
        out.create()
        out.write(probe, b"warmstart")
        out.remove(probe)
    except (OSError, OutageError, DiskError) as error:
        raise DiskError(f"--out {out.uri}: cannot be written to ({error}); choose another folder") from None
    if out.local is None:
        return
    needed = sum(file.bytes * (UNPACKED if compression_of(file.name) else 1) for file in inputs)
    needed -= sum(file.bytes for file in out.files())
    if needed > (free := shutil.disk_usage(out.local).free):
        raise DiskError(
            f"--out {out.uri}: {_size(free)} free, about {_size(needed)} needed: texts stand beside their answers; "
            "choose another folder, or keep fewer columns (--keep-column)"
        )


def check_apart(folder: Folder, out: Folder) -> None:
    """Refuse an output below the input: a rerun would label its own answers."""
    source, target = folder.uri.rstrip("/") + "/", out.uri.rstrip("/") + "/"
    if folder.local is not None and out.local is not None:
        source, target = (os.path.realpath(place) + "/" for place in (folder.local, out.local))
    if target.startswith(source):
        raise RunError(f"--out {out.uri}: is inside the folder that is labelled, {folder.uri}; choose another folder")


def _check_memory(where: str, free: int, workers: int, each: int, store: int) -> None:
    needed = workers * each + store
    if needed > free:
        most = (free - store) // each
        advice = f"set --workers {most}" if most > 0 else "close other programs, or use a larger machine"
        raise RunError(
            f"--ray: found {_size(free)} of free memory on {where}, {workers} worker(s) need about {_size(needed)}: "
            f"{_size(each)} each; {advice}"
        )


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
