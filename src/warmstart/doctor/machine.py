"""What this machine has: processor, memory, threads, number formats, room on the disk, programs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from warmstart.models.precision import has_bf16, resolve
from warmstart.report.pdf import find_browser
from warmstart.runtime.environment import environment, memory, usable_cores


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


def free_gb(place: Path) -> float:
    """Room on the disk that holds a place, or would."""
    place = place.absolute()
    while not place.exists():
        place = place.parent
    return round(shutil.disk_usage(place).free / 1e9, 1)


def _apple() -> str | None:
    import torch

    return "Apple GPU (mps)" if torch.backends.mps.is_available() else None


def _accelerator_memory() -> float | None:
    import torch

    if not torch.cuda.is_available():
        return None
    return round(torch.cuda.get_device_properties(0).total_memory / 1e9, 1)
