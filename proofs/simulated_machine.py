"""A machine with a simulated disk: processes that take turns at system calls, and faults where a schedule puts them.

Processes are greenlets in one thread, so the same schedule is always the same run. A process that was killed, or lost
power, unwinds without effect: each further system call of it raises `Killed`.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from simulated_disk import KEEPS_ALL, ROOT, Disk, File, Node, Outcome

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EINTR": errno.EINTR}
MOST_CALLS = 60_000
"""System calls after which a run that does not end is taken to be stuck."""
NUMBERS = count(1000)
"""Process numbers, none of them twice."""
LONGEST = 24 * 3600.0
"""Seconds on the machine's clock after which waiting is taken to be stuck."""


class Killed(BaseException):
    """The process is no more."""


class Stuck(BaseException):
    """Nothing goes on, for longer than anyone would wait."""


@dataclass(frozen=True)
class Fault:
    """What happens instead of a system call."""

    kind: str
    """kill, cut (of power), or the name of an error."""
    outcome: Outcome = KEEPS_ALL
    half: bool = False
    """Half of the bytes were written before it happened."""


@dataclass(frozen=True)
class Call:
    """A system call that a process is about to make."""

    number: int
    name: str
    writes: bool
    """Whether it changes the disk, or makes a change last."""


@dataclass(eq=False)
class Process:
    """A process: what it does, what became of it."""

    number: int
    work: Callable[[], object]
    dead: bool = False
    ended: bool = False
    error: BaseException | None = None
    wakes: float = 0.0
    thread: Any = None
    files: dict[int, Any] = field(default_factory=dict)


Schedule = Callable[[Call], Fault | None]


class Machine:
    """A disk, a clock, and processes.

    Args:
        turns: Decides which process goes next, and for how long; None for one after the other.
    """

    def __init__(self, turns: random.Random | None = None, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.turns = turns
        self.schedule: Schedule | None = None
        self.clock = 0.0
        self.calls = self.names = 0
        self.process: Process | None = None
        self.processes: list[Process] = []
        self.faults: list[str] = []
        self._main: Any = None
        self._patience = 0

    def run(self, *works: Callable[[], object], schedule: Schedule | None = None) -> list[Process]:
        """Run processes until all have ended or died; what they start runs with them."""
        self.schedule, self.calls, self.faults, self.processes = schedule, 0, [], []
        self._main = getcurrent()
        started = [self.start(work) for work in works]
        begun = self.clock
        try:
            while alive := [process for process in self.processes if not process.ended]:
                ready = [process for process in alive if process.wakes <= self.clock]
                if not ready:
                    self.clock = min(process.wakes for process in alive)
                    if self.clock - begun > LONGEST:
                        raise Stuck("waits for ever")
                    continue
                process = ready[0] if self.turns is None else self.turns.choice(ready)
                self._patience = 1 << 30 if self.turns is None else self.turns.randrange(1, 24)
                self._go_on(process)
        finally:
            self.cut_off()
        return started

    def start(self, work: Callable[[], object]) -> Process:
        """Start a process, which takes its turn with the others."""
        process = Process(next(NUMBERS), work)
        process.thread = greenlet(lambda: self._live(process))
        self.processes.append(process)
        return process

    def _live(self, process: Process) -> None:
        try:
            process.work()
        except (Exception, Killed, GreenletExit) as error:
            process.error = error
        finally:
            self._release(process)
            process.ended = True

    def _go_on(self, process: Process) -> None:
        before, self.process = self.process, process
        try:
            process.thread.parent = getcurrent()
            process.thread.switch()
        finally:
            self.process = before

    def cut_off(self) -> None:
        """End all processes, which can do nothing more."""
        for process in self.processes:
            process.dead = True
        for process in self.processes:
            if process.thread and not process.thread.dead:
                self._go_on(process)
                assert process.ended
        self.process = None

    def _release(self, process: Process) -> None:
        for handle in process.files.values():
            if isinstance(handle.node, File) and handle.node.holder is handle:
                handle.node.holder = None
        process.files.clear()

    def enter(self, name: str, node: Node | None = None, writes: bool = True) -> Fault | None:
        """A process is about to make a system call; returns a fault that hits it halfway."""
        process = self.process
        if process is None:  # who looks at the disk from outside
            return None
        if process.dead:
            raise Killed
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise Stuck("makes system calls for ever")
        fault = self.schedule(Call(self.calls, name, writes)) if self.schedule else None
        if fault is not None:
            self.faults.append(f"{fault.kind} at call {self.calls} ({name})")
            if not (fault.half and name == "write"):
                self.strike(fault, node if name == "fsync" else None)
            return fault
        if self.turns is not None:
            self._patience -= 1
            if self._patience <= 0:
                self.pause()
        return None

    def pause(self) -> None:
        """Let another process go on."""
        process = self.process
        if process is None or getcurrent() is not process.thread:
            return
        self._main.switch()
        if process.dead:
            raise Killed

    def sleep(self, seconds: float) -> None:
        """Wait, by the machine's clock."""
        process = self.process
        if process is None:
            return
        if process.dead:
            raise Killed
        process.wakes = self.clock + max(seconds, 1e-6)
        self.pause()

    def strike(self, fault: Fault, synced: Node | None = None) -> None:
        """Let a fault happen to the process that runs."""
        process = self.process
        assert process is not None
        if fault.kind in ERRORS:
            if isinstance(synced, File) and fault.kind == "EIO" and synced.writes:
                synced.forgotten = True
            raise OSError(ERRORS[fault.kind], os.strerror(ERRORS[fault.kind]), ROOT)
        if fault.kind == "kill":
            process.dead = True
            self._release(process)
        else:
            for other in self.processes:
                other.dead = True
            self.disk = self.disk.after(fault.outcome)
        raise Killed

    def new_name(self) -> int:
        """A number that was never given before, for what is random elsewhere."""
        self.names += 1
        return self.names
