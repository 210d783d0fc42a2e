"""What a run was made with: versions, processor, threads. No name of a machine or a person."""

from __future__ import annotations

import os
import platform
from importlib import metadata
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
        "versions": {name: metadata.version(name) for name in _PACKAGES},
    }
