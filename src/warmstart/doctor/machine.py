"""What this machine has: processor, memory, threads, number formats, room on the disk, programs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from warmstart.encoders.precision import has_bf16, resolve
from warmstart.environment import environment
from warmstart.reporting.pdf import find_browser

CGROUP = Path("/sys/fs/cgroup")


def machine(cache: Path) -> dict[str, Any]:
    """The facts that decide how fast, and in what numbers, a training runs here.

    Args:
        cache: Where rows and stages are kept.
    """
    found = environment()
    return {
        **{name: found[name] for name in ("python", "system", "processor")},
        "cores": usable_cores(),
        "threads": found["threads"],
        "memory_gb": round(memory() / 1e9, 1),
        "accelerator": found["accelerator"] or _apple(),
        "accelerator_memory_gb": _accelerator_memory(),
        "bf16": has_bf16(),
        "precision": resolve("auto"),
        "cache": str(cache),
        "cache_free_gb": free_gb(cache),
        "here_free_gb": free_gb(Path()),
        "browser": find_browser(),
    }


def usable_cores() -> int:
    """Cores that this process may use: a container or a queue may grant fewer than there are."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = _first_line(CGROUP / "cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        count = min(count, max(1, int(words[0]) // int(words[1])))
    return count


def memory() -> int:
    """Bytes of memory that this process may use."""
    pages = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    there = os.sysconf(pages[0]) * os.sysconf(pages[1]) if hasattr(os, "sysconf") else 0
    limit = _first_line(CGROUP / "memory.max")
    return min(there, int(limit)) if limit.isdigit() else there


def free_gb(place: Path) -> float:
    """Room on the disk that holds a place, or would."""
    place = place.absolute()
    while not place.exists():
        place = place.parent
    return round(shutil.disk_usage(place).free / 1e9, 1)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0]
    except OSError:
        return ""


def _apple() -> str | None:
    import torch

    return "Apple GPU (mps)" if torch.backends.mps.is_available() else None


def _accelerator_memory() -> float | None:
    import torch

    if not torch.cuda.is_available():
        return None
    return round(torch.cuda.get_device_properties(0).total_memory / 1e9, 1)
