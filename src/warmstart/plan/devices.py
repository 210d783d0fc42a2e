"""A table of devices: what each can compute at most, what share of that a training reaches, its memory and its price.

Peaks, memory and bandwidth are from the makers' data sheets, dense arithmetic, 16 bits summed up in 32. Shares of the
peak, the time to start a block and prices are assumptions, rounded: prices are those of an hour on demand in a large
cloud, in US dollars, as noted in `PRICED`; nothing where the device is your own. Give your own with `--price`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from warmstart.errors import RecipeError, nearest

PRICED = "2025"
"""When the prices were noted."""
HERE = "this machine"


@dataclass(frozen=True)
class Device:
    """Something that trains."""

    name: str
    what: str
    peak: Mapping[str, float]
    """Floating-point operations a second at most, in units of 10¹², by precision."""
    gb: float
    """Memory."""
    bandwidth: float
    """GB a second between memory and arithmetic."""
    price: float
    """US dollars an hour."""
    share: Mapping[str, float] = field(default_factory=lambda: {"fp32": 0.6, "bf16": 0.3, "fp16": 0.3})
    """Share of the peak that the training of an encoder reaches, by precision."""
    start: float = 0.002
    """Seconds until the work of a block is handed over, both passes and the optimizer; small batches wait for it."""
    base: float = 1.0
    """GB taken before the first weight: libraries, kernels, work space."""

    fused: bool = True
    """Its attention keeps nothing for each pair of tokens."""

    def precision(self, wanted: str, half: bool) -> str:
        """What `training.precision` becomes on it: auto is bf16 where it has it, as in a training.

        Args:
            half: The encoder runs in 16 bits.
        """
        if wanted == "auto":
            return "bf16" if half and "bf16" in self.peak else "fp32"
        if wanted not in self.peak:
            raise RecipeError(f"training.precision: found {wanted}, but {self.name} has {', '.join(self.peak)}")
        return wanted

    def seconds(self, operations: float, precision: str) -> float:
        """How long it computes so many operations."""
        return operations / (self.peak[precision] * 1e12 * self.share[precision])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _gpu(name: str, what: str, fp32: float, half: float, gb: float, bandwidth: float, price: float) -> Device:
    return Device(name, what, {"fp32": fp32, "bf16": half, "fp16": half}, gb, bandwidth, price)


def _cpu(name: str, what: str, peak: Mapping[str, float], gb: float, price: float, **share: float) -> Device:
    return Device(name, what, peak, gb, 50, price, share, start=0.0005, base=0.8, fused=False)


_TABLE = (
    _cpu("laptop-cpu", "8 cores with AVX2 at 3 GHz", {"fp32": 0.77}, 16, 0.0, fp32=0.4),
    _cpu("cpu-amx", "a core of a server with AMX", {"fp32": 0.16, "bf16": 4.0}, 8, 0.05, fp32=0.5, bf16=0.05),
    Device("m2", "Apple M2, 10 cores of graphics", {"fp32": 3.6}, 16, 100, 0.0, {"fp32": 0.4}, fused=False),
    Device("t4", "NVIDIA T4", {"fp32": 8.1, "fp16": 65.0}, 16, 300, 0.5),
    _gpu("l4", "NVIDIA L4", 30.3, 121.0, 24, 300, 0.8),
    _gpu("a10g", "NVIDIA A10G", 35.0, 70.0, 24, 600, 1.0),
    _gpu("rtx-3090", "NVIDIA GeForce RTX 3090", 35.6, 71.0, 24, 936, 0.0),
    _gpu("rtx-4090", "NVIDIA GeForce RTX 4090", 82.6, 165.0, 24, 1008, 0.0),
    _gpu("a100-40", "NVIDIA A100, 40 GB", 19.5, 312.0, 40, 1555, 3.7),
    _gpu("a100-80", "NVIDIA A100, 80 GB", 19.5, 312.0, 80, 2039, 5.0),
    _gpu("h100", "NVIDIA H100 SXM, 80 GB", 67.0, 989.0, 80, 3350, 10.0),
)
DEVICES: dict[str, Device] = {device.name: device for device in _TABLE}


def find(name: str) -> Device:
    """A device by its name in the table."""
    if name not in DEVICES:
        raise RecipeError(f"--hardware {name}: {nearest(name, DEVICES)} (`--hardware list` shows all)")
    return DEVICES[name]


def here() -> Device:
    """The device of the table that is nearest to this machine, with the memory of the machine."""
    import torch

    found, gb = _nearest(torch)
    return replace(found, name=HERE, gb=gb or found.gb)


def _nearest(torch: Any) -> tuple[Device, float]:
    if torch.cuda.is_available():
        told = torch.cuda.get_device_name().lower().replace(" ", "-")
        memory = torch.cuda.get_device_properties(0).total_memory / 1e9
        fits = [one for one in _TABLE if one.name.removesuffix("-40").removesuffix("-80") in told]
        return min(fits or [DEVICES["l4"]], key=lambda one: abs(one.gb - memory)), memory
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9 if hasattr(os, "sysconf") else 0.0
    if torch.backends.mps.is_available():
        return DEVICES["m2"], memory
    return DEVICES["cpu-amx" if torch.cpu.get_capabilities().get("amx_bf16") else "laptop-cpu"], memory
