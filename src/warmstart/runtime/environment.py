"""What a run was made with, and what there is to use: versions, processor, threads, memory. Never a name."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

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


def environment() -> dict[str, Any]:
    """Versions and hardware, as kept in a run's `environment.json`."""
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
    """Read once: each costs some milliseconds, and a run says them more than once."""
    return tuple((name, metadata.version(name)) for name in _PACKAGES)


def usable_cores() -> int:
    """Cores that this process may use: a container or a queue may grant fewer than there are."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = _text(CGROUP / "cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        count = min(count, max(1, int(words[0]) // int(words[1])))
    return count


def memory() -> int:
    """Bytes of memory that this process may use."""
    pages = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    there = os.sysconf(pages[0]) * os.sysconf(pages[1]) if hasattr(os, "sysconf") else 0
    limit = _text(CGROUP / "memory.max").strip()
    return min(there, int(limit)) if limit.isdigit() else there


def free_memory() -> int:
    """Bytes of memory that nothing else uses at present, as the system and a container's limit say."""
    lines = _text(Path("/proc/meminfo")).splitlines()
    told = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limit, used = (_text(CGROUP / name).strip() for name in ("memory.max", "memory.current"))
    # Pages of files that were read count as used, though the system gives them up when asked.
    pages = [
        line.split()[1] for line in _text(CGROUP / "memory.stat").splitlines() if line.startswith("inactive_file ")
    ]
    left = [int(limit) - int(used) + sum(map(int, pages))] if limit.isdigit() and used.isdigit() else []
    return max(0, min([*(told or [memory()]), *left]))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
