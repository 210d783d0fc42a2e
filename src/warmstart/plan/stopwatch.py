"""A clock that follows the progress bars, and the memory of this process."""

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
    cpu_seconds: float
    memory_gb: float


def _tick() -> Tick:
    return Tick(time.time(), time.process_time(), _status_gb("VmRSS"))


class Clock:
    """Progress that records when each bar started, advanced and ended."""

    def __init__(self) -> None:
        self.bars: dict[str, list[Tick]] = {}

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[_Ticking]:
        self.bars[name] = [_tick()]
        yield _Ticking(self.bars[name])
        self.bars[name].append(_tick())

    def log(self, text: str) -> None:
        pass


class _Ticking:
    def __init__(self, ticks: list[Tick]) -> None:
        self.ticks = ticks

    def advance(self, amount: float = 1, note: str = "") -> None:
        if amount:  # 0 sets where a bar starts
            self.ticks.append(_tick())


def peak_gb() -> float:
    """The peak memory of this process in GB; of the accelerator, where there is one."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_reserved() / 1e9
    # Without /proc, by getrusage, which includes the process that this one was forked from.
    unit = 1 if sys.platform == "darwin" else 1024
    return _status_gb("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _status_gb(name: str) -> float:
    """A line of /proc/self/status in GB; 0 where there is none."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith(f"{name}:")), 0.0)
