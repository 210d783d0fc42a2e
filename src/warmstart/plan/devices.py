"""The devices of `devices.yaml`: their peak, the share of it that a training reaches, their memory and their price."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import yaml

from warmstart.errors import RecipeError, nearest
from warmstart.options import Values

THIS_MACHINE = "this machine"


@dataclass(frozen=True)
class Device:
    """A device that trains."""

    name: str
    about: str
    peak_tflops: Mapping[str, float]
    """Peak floating-point operations per second, in units of 10¹², by precision."""
    memory_gb: float
    bandwidth_gbs: float
    """GB per second between memory and arithmetic."""
    price_per_hour: float
    """US dollars."""
    utilization: Mapping[str, float] = field(default_factory=lambda: {"fp32": 0.6, "bf16": 0.3, "fp16": 0.3})
    """Share of the peak that the training of an encoder reaches, by precision."""
    launch_seconds: float = 0.002
    """Seconds to launch the work of a block, both passes and the optimizer; small batches wait for it."""
    overhead_gb: float = 1.0
    """Memory taken before the first weight: libraries, kernels, work space."""
    fused_attention: bool = True
    """Whether its attention keeps nothing for each pair of tokens."""

    def precision(self, wanted: str, half: bool) -> str:
        """What `training.precision` resolves to: auto is bf16 where the device has it, as in a training.

        Args:
            half: The encoder supports 16 bits.
        """
        if wanted == "auto":
            return "bf16" if half and "bf16" in self.peak_tflops else "fp32"
        if wanted not in self.peak_tflops:
            raise RecipeError(f"training.precision: found {wanted}, but {self.name} has {', '.join(self.peak_tflops)}")
        return wanted

    def seconds(self, flops: float, precision: str) -> float:
        """How long it takes for so many floating-point operations."""
        return flops / (self.peak_tflops[precision] * 1e12 * self.utilization[precision])

    def as_json(self) -> Values:
        return asdict(self)


def _read() -> tuple[dict[str, Device], str]:
    text = (Path(__file__).parent / "devices.yaml").read_text(encoding="utf-8")
    table = yaml.safe_load(text)
    return {name: Device(name, **values) for name, values in table["devices"].items()}, str(table["as_of"])


DEVICES, AS_OF = _read()
"""Every device by its name, and when the prices were noted."""


def find_device(name: str) -> Device:
    """A device of the table by its name."""
    if name not in DEVICES:
        raise RecipeError(f"--hardware {name}: {nearest(name, DEVICES)} (`--hardware list` shows all)")
    return DEVICES[name]


def this_machine() -> Device:
    """The device of the table that is closest to this machine, with the memory of the machine."""
    device, memory_gb = _closest()
    return replace(device, name=THIS_MACHINE, memory_gb=memory_gb or device.memory_gb)


def _closest() -> tuple[Device, float]:
    """The device, and the memory of this machine in GB; 0 where that is not known."""
    import torch

    if torch.cuda.is_available():
        full_name = torch.cuda.get_device_name().lower().replace(" ", "-")
        memory = torch.cuda.get_device_properties(0).total_memory / 1e9
        fits = [device for device in DEVICES.values() if _model(device) in full_name]
        return min(fits or [DEVICES["l4"]], key=lambda device: abs(device.memory_gb - memory)), memory
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9 if hasattr(os, "sysconf") else 0.0
    if torch.backends.mps.is_available():
        return DEVICES["m2"], memory
    return DEVICES["cpu-amx" if torch.cpu.get_capabilities().get("amx_bf16") else "laptop-cpu"], memory


def _model(device: Device) -> str:
    """The name without the size of the memory."""
    return device.name.removesuffix("-40").removesuffix("-80")
