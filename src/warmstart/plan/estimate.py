"""An estimate: operations, memory, time and cost of a stage, from its work and a device, or from measured steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from warmstart.plan.cost_curve import Curve, Shape
from warmstart.plan.devices import Device
from warmstart.plan.trial_run import Rehearsal
from warmstart.plan.workload import Work

NUMBER = 4
"""Bytes of a weight, of its gradient, and of each of the two means that AdamW keeps of it: 32 bits, whatever the
precision of the arithmetic."""
MOVED = 7 * NUMBER
"""Bytes that a step of AdamW reads and writes for a weight that learns: it reads four numbers and writes three."""


@dataclass(frozen=True)
class Seconds:
    """Where the time goes."""

    start: float
    """Until the first step: libraries, reading, weights; 0 where it is not known."""
    training: float
    testing: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.start + self.training + self.testing


@dataclass(frozen=True)
class Estimate:
    """What a stage will cost."""

    stage: str
    rows: dict[str, int]
    steps: int
    tokens: int
    """Tokens that pass through the encoder in training, padding counted."""
    padding: float
    """Share of them that is padding."""
    parameters: int
    learning: int
    operations: float
    """Floating-point operations of training and testing."""
    gb: float
    """Memory at the most."""
    seconds: Seconds
    cost: float
    """US dollars."""
    hardware: str
    devices: int
    """How many of them share the work."""
    precision: str
    measured: bool
    """Whether time and memory follow from steps measured on this machine."""
    fits: bool
    """Whether the device has so much memory."""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": {**asdict(self.seconds), "total": self.seconds.total}}


def estimate(stage: str, work: Work, device: Device, price: float | None = None) -> Estimate:
    """What a stage will cost on a device of the table.

    Args:
        price: US dollars an hour; None for the table's.
    """
    counted = work.counted
    each = device.seconds(work.training / work.steps, work.precision)
    waiting = counted.blocks * device.start  # the device computes while the next block is handed over
    update = counted.learning * MOVED / (device.bandwidth * 1e9)
    # Answers are computed in 32 bits, as plain transformers does.
    seconds = Seconds(0.0, work.steps * (max(each, waiting) + update), device.seconds(work.testing, "fp32"))
    return _told(stage, work, device, bytes_of(work, device) / 1e9 + device.base, seconds, price, measured=False)


def bytes_of(work: Work, device: Device) -> float:
    """Bytes of weights, gradients, what AdamW keeps, and the activations of the largest batch."""
    counted = work.counted
    curve = replace(counted.kept, pair=0.0) if device.fused and counted.fused else counted.kept
    kept = curve(largest(work.shapes))
    return counted.parameters * NUMBER + counted.learning * 3 * NUMBER + (0 if work.still else kept)


def largest(shapes: Iterable[Shape]) -> Shape:
    """The batch of the most tokens."""
    return max(shapes, key=lambda shape: (shape.tokens, shape.length))


def from_measured(
    stage: str,
    work: Work,
    device: Device,
    seen: Rehearsal,
    price: float | None = None,
    saves: float | None = None,
) -> Estimate:
    """What a stage will cost on this machine, by the steps measured on it.

    Args:
        device: This machine, for its price and the size of its memory.
        saves: Seconds after which a training saves itself for the first time.
    """
    curve = Curve.through([step.shape for step in seen.steps], [step.seconds for step in seen.steps])
    each = curve.total(work.shapes) / len(work.shapes)
    training = each * work.batches * work.share + seen.features + seen.saving
    gb = seen.gb
    if saves is not None and training >= saves:  # a checkpoint is put together in memory
        gb = max(gb, seen.resting + (work.counted.parameters + 2 * work.counted.learning) * NUMBER / 1e9)
    seconds = Seconds(seen.start, training, seen.testing)
    return _told(stage, work, device, gb, seconds, price, measured=True)


def _told(
    stage: str, work: Work, device: Device, gb: float, seconds: Seconds, price: float | None, measured: bool
) -> Estimate:
    hourly = device.price if price is None else price
    return Estimate(
        stage,
        work.rows,
        work.steps,
        work.padded,
        work.padding,
        work.counted.parameters,
        work.counted.learning,
        work.training + work.testing,
        gb,
        seconds,
        hourly * seconds.total / 3600,
        device.name,
        1,
        work.precision,
        measured,
        gb <= device.gb,
    )
