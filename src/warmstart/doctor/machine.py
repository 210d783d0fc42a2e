"""What this machine has: processor, memory, threads, precisions, disk space, programs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from warmstart.models.precision import resolve_precision, supports_bf16
from warmstart.report.pdf import find_browser
from warmstart.runtime.environment import environment, total_memory, usable_cores


def machine(cache: Path) -> dict[str, Any]:
    """The facts that decide how fast, and in which precision, a training runs here.

    Args:
        cache: The folder of cached rows and stages.
    """
    facts = environment()
    return {
        **{name: facts[name] for name in ("python", "system", "processor")},
        "cores": usable_cores(),
        "threads": facts["threads"],
        "memory_gb": round(total_memory() / 1e9, 1),
        "accelerator": facts["accelerator"] or _apple(),
        "accelerator_memory_gb": _accelerator_memory(),
        "bf16": supports_bf16(),
        "precision": resolve_precision("auto"),
        "cache": str(cache),
        "cache_free_gb": free_gb(cache),
        "here_free_gb": free_gb(Path()),
        "browser": find_browser(),
    }


def free_gb(path: Path) -> float:
    """Free space on the disk of a path, which need not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return round(shutil.disk_usage(path).free / 1e9, 1)


def _apple() -> str | None:
    import torch

    return "Apple GPU (mps)" if torch.backends.mps.is_available() else None


def _accelerator_memory() -> float | None:
    import torch

    if not torch.cuda.is_available():
        return None
    return round(torch.cuda.get_device_properties(0).total_memory / 1e9, 1)
