"""The estimate of a stage: operations, memory, time and cost, from its workload and a device, or a trial run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from warmstart.options import Values
from warmstart.plan.cost_curve import BatchShape, CostCurve
from warmstart.plan.devices import Device
from warmstart.plan.trial_run import TrialRun
from warmstart.plan.workload import Workload

NUMBER = 4
"""Bytes of a weight, of its gradient, and of each of its two moments in AdamW: 32 bits, whatever the precision of the
arithmetic."""
MOVED = 7 * NUMBER
"""Bytes that a step of AdamW reads and writes for a trainable weight: it reads four numbers and writes three."""


@dataclass(frozen=True)
class Seconds:
    """Where the time goes."""

    startup: float
    """Until the first step: imports, reading, loading the model; 0 where it is not known."""
    training: float
    evaluation: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.startup + self.training + self.evaluation


@dataclass(frozen=True)
class StageEstimate:
    """What a stage will cost."""

    stage: str
    rows: dict[str, int]
    steps: int
    tokens: int
    """Tokens that pass through the encoder in training, padding included."""
    padding: float
    """Share of them that is padding."""
    parameters: int
    trainable_parameters: int
    flops: float
    """Floating-point operations of training and evaluation."""
    memory_gb: float
    """Peak memory."""
    seconds: Seconds
    cost: float
    """US dollars."""
    hardware: str
    devices: int
    """The number of devices that share the work."""
    precision: str
    measured: bool
    """Whether time and memory follow from steps measured on this machine."""
    fits: bool
    """Whether the device has enough memory."""

    def as_json(self) -> Values:
        return {**asdict(self), "seconds": {**asdict(self.seconds), "total": self.seconds.total}}


def estimate_stage(stage: str, work: Workload, device: Device, price: float | None = None) -> StageEstimate:
    """What a stage will cost on a device of the table.

    Args:
        price: US dollars per hour; None for the table's.
    """
    model = work.model
    compute = device.seconds(work.training_flops / work.steps, work.precision)
    launch = model.blocks * device.launch_seconds  # the device computes while the next block is launched
    update = model.trainable_parameters * MOVED / (device.bandwidth_gbs * 1e9)
    # Predictions are computed in 32 bits, as plain transformers does.
    evaluation = device.seconds(work.evaluation_flops, "fp32")
    seconds = Seconds(0.0, work.steps * (max(compute, launch) + update), evaluation)
    memory = bytes_of(work, device) / 1e9 + device.overhead_gb
    return _priced(StageCosts(stage, work, memory, seconds, measured=False), device, price)


def bytes_of(work: Workload, device: Device) -> float:
    """Bytes of weights, gradients, AdamW's moments, and the activations of the largest batch."""
    model = work.model
    fused = device.fused_attention and model.fused_attention
    curve = replace(model.activations, pair=0.0) if fused else model.activations
    activations = 0 if work.encoder_frozen else curve(largest(work.shapes))
    return model.parameters * NUMBER + model.trainable_parameters * 3 * NUMBER + activations


def largest(shapes: Iterable[BatchShape]) -> BatchShape:
    """The batch with the most tokens."""
    return max(shapes, key=lambda shape: (shape.tokens, shape.length))


def estimate_from_trial(
    stage: str,
    work: Workload,
    device: Device,
    trial: TrialRun,
    price: float | None = None,
    first_save: float | None = None,
) -> StageEstimate:
    """What a stage will cost on this machine, from the steps of a trial run.

    Args:
        device: This machine, for its price and the size of its memory.
        first_save: Seconds after which a training saves its first checkpoint; None for never.
    """
    curve = CostCurve.through([step.shape for step in trial.steps], [step.seconds for step in trial.steps])
    each = curve.total(work.shapes) / len(work.shapes)
    training = each * work.batches * work.relative_cost + trial.features + trial.saving
    memory = trial.peak_gb
    if first_save is not None and training >= first_save:  # a checkpoint is assembled in memory
        weights = work.model.parameters + 2 * work.model.trainable_parameters
        memory = max(memory, trial.resting_gb + weights * NUMBER / 1e9)
    seconds = Seconds(trial.startup, training, trial.evaluation)
    return _priced(StageCosts(stage, work, memory, seconds, measured=True), device, price)


@dataclass(frozen=True)
class StageCosts:
    """Memory and time of a stage, before it is priced."""

    stage: str
    work: Workload
    memory_gb: float
    seconds: Seconds
    measured: bool


def _priced(costs: StageCosts, device: Device, price: float | None) -> StageEstimate:
    work, hourly = costs.work, device.price_per_hour if price is None else price
    return StageEstimate(
        stage=costs.stage,
        rows=work.rows,
        steps=work.steps,
        tokens=work.padded_tokens,
        padding=work.padding,
        parameters=work.model.parameters,
        trainable_parameters=work.model.trainable_parameters,
        flops=work.training_flops + work.evaluation_flops,
        memory_gb=costs.memory_gb,
        seconds=costs.seconds,
        cost=hourly * costs.seconds.total / 3600,
        hardware=device.name,
        devices=1,
        precision=work.precision,
        measured=costs.measured,
        fits=costs.memory_gb <= device.memory_gb,
    )
