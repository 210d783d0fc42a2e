"""A clock that is told of progress, and the memory of this process."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Tick(NamedTuple):
    """An instant."""

    time: float
    busy: float
    gb: float


def _tick() -> Tick:
    return Tick(time.time(), time.process_time(), _status_gb("VmRSS"))


class Clock:
    """Progress that notes when each bar began, moved on and ended."""

    def __init__(self) -> None:
        self.bars: dict[str, list[Tick]] = {}

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[_Ticking]:
        self.bars[name] = [_tick()]
        yield _Ticking(self.bars[name])
        self.bars[name].append(_tick())

    def say(self, text: str) -> None:
        pass


class _Ticking:
    def __init__(self, ticks: list[Tick]) -> None:
        self.ticks = ticks

    def advance(self, amount: float = 1, note: str = "") -> None:
        if amount:  # a bar is told where it begins
            self.ticks.append(_tick())


def peak_gb() -> float:
    """The most memory that this process has had, in GB; of an accelerator, where there is one."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_reserved() / 1e9
    # Elsewhere than on Linux by the other way, which counts what the process was started from as well.
    unit = 1 if sys.platform == "darwin" else 1024
    return _status_gb("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _status_gb(name: str) -> float:
    """A line of Linux's account of this process, in GB; 0 where there is none."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith(f"{name}:")), 0.0)
