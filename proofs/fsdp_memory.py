"""The memory of a process of a distributed training: what it keeps of the model, and its resident set."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from warmstart.training.trainer import WarmstartTrainer

_STEP = WarmstartTrainer.training_step


class Meter:
    """Notes, while this process trains, the bytes of weights, gradients and optimizer state, and the peak of memory."""

    def __init__(self) -> None:
        self.model: Any = None
        self.kept = self.loading = self.training = 0
        meter, steps = self, itertools.count(1)

        def step(trainer: WarmstartTrainer, model: Any, inputs: Any, items: object = None) -> torch.Tensor:
            number = next(steps)
            if number == 1:
                meter.model, meter.loading = trainer.model, peak_bytes()
                _reset_peak()
            loss = _STEP(trainer, model, inputs, items)
            if number == 2:  # from here on there is an optimizer state; nothing was saved yet
                meter.kept, meter.training = _kept_bytes(trainer), peak_bytes()
            return loss

        WarmstartTrainer.training_step = step  # type: ignore[method-assign]

    def write(self, run: Path, logits: torch.Tensor) -> None:
        """Write what was noted beside the run's files, and from the main process the logits."""
        rank = os.environ["RANK"]
        peaks = {"loading": self.loading, "training": self.training, "saving": peak_bytes()}
        noted = {"kept_mb": round(self.kept / 1e6, 3), **{f"{name}_mb": round(peaks[name] / 1e6) for name in peaks}}
        (run / f"memory-{rank}.json").write_text(json.dumps(noted), encoding="utf-8")
        if rank == "0":
            save_file({"logits": logits}, run / "logits.safetensors")

    @staticmethod
    def read(run: Path) -> dict[str, float]:
        """The largest of each figure over the processes."""
        noted = [json.loads(path.read_text(encoding="utf-8")) for path in run.glob("memory-*.json")]
        return {name: max(each[name] for each in noted) for name in noted[0]}


def _kept_bytes(trainer: WarmstartTrainer) -> int:
    """Bytes of weights, gradients and optimizer state in this process, a tied weight counted once."""
    parameters = list(trainer.model.parameters())
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    states = trainer.create_optimizer().state.values()
    values = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    return sum(_bytes(tensor) for tensor in (*parameters, *gradients, *values))


def _bytes(tensor: torch.Tensor) -> int:
    own = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return own.numel() * own.element_size()


def peak_bytes() -> int:
    """The largest resident set of this process since it was last reset."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
