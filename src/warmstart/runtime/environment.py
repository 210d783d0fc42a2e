"""What a run was made with, and what this machine offers: versions, processor, threads, memory. Never a host name."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TypedDict

_PACKAGES = (
    "warmstart",
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "accelerate",
    "numpy",
    "scikit-learn",
)
CGROUP = Path("/sys/fs/cgroup")


class Environment(TypedDict):
    """What a run's `environment.json` holds."""

    python: str
    system: str
    processor: str
    cores: int | None
    threads: int
    accelerator: str | None
    versions: dict[str, str]


def environment() -> Environment:
    """Versions and hardware, as stored in a run's `environment.json`."""
    import torch

    cuda = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": torch.cpu.get_capabilities().get("cpu_name", platform.processor()),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if cuda else None,
        "versions": dict(_versions()),
    }


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Read once: each takes some milliseconds, and a run needs them more than once."""
    return tuple((name, metadata.version(name)) for name in _PACKAGES)


def usable_cores() -> int:
    """Cores that this process may use: a container or a job scheduler may grant fewer than the machine has."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = _text(CGROUP / "cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        count = min(count, max(1, int(words[0]) // int(words[1])))
    return count


def total_memory() -> int:
    """Bytes of memory that this process may use."""
    pages = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    physical = os.sysconf(pages[0]) * os.sysconf(pages[1]) if hasattr(os, "sysconf") else 0
    limit = _text(CGROUP / "memory.max").strip()
    return min(physical, int(limit)) if limit.isdigit() else physical


def free_memory() -> int:
    """Bytes of memory that are available now, by the system's count and the container's limit."""
    lines = _text(Path("/proc/meminfo")).splitlines()
    available = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limit, used = (_text(CGROUP / name).strip() for name in ("memory.max", "memory.current"))
    # The page cache counts as used, though the system gives it up when memory is needed.
    pages = [
        line.split()[1] for line in _text(CGROUP / "memory.stat").splitlines() if line.startswith("inactive_file ")
    ]
    granted = [int(limit) - int(used) + sum(map(int, pages))] if limit.isdigit() and used.isdigit() else []
    return max(0, min([*(available or [total_memory()]), *granted]))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
