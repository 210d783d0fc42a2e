"""Schedules of faults: every single crash point of a job, or several at random, as a seed decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field

from simulated_disk import CONTENTS, KEEPS_ALL, Change, Disk, File, Outcome
from simulated_jobs import Job, World
from simulated_labelling import Store
from simulated_machine import ERRORS, Call, Fault, Killed, Machine, Process, Schedule, Stuck
from simulated_training import Promises
from warmstart.errors import WarmstartError

SINGLED_OUT = 8
"""Changes of names, the latest, of which each is lost alone and kept alone."""


@dataclass(frozen=True)
class Violation:
    """Something that must not happen, and how to see it again."""

    job: str
    faults: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return f"{self.job}: {self.what} (after {'; '.join(self.faults) or 'nothing'})"


def outcomes(disk: Disk) -> Iterator[tuple[str, Outcome]]:
    """What a power cut may leave, bounded: all, nothing, each kind of torn bytes, each change of a name by itself."""
    yield "all kept", KEEPS_ALL
    pending = disk.pending()
    written = any(isinstance(node, File) for node in disk.dirty)
    for content in CONTENTS[1:] if written else ():
        yield f"names kept, bytes {content}", Outcome(lambda change: True, _always(content))
    if not pending:
        return
    yield "names lost", Outcome(lambda change: False, _always("new"))
    if written:
        yield "all lost", Outcome(lambda change: False, _always("old"))
    if len(pending) == 1:
        return
    for number, change in list(enumerate(pending))[-SINGLED_OUT:]:
        yield f"change {number} lost", Outcome(_all_but(change), _always("new"))
        yield f"change {number} alone kept", Outcome(_only(change), _always("new"))
        if written:
            yield f"change {number} alone kept, bytes old", Outcome(_only(change), _always("old"))


def _always(content: str) -> Callable[[File], str]:
    return lambda file: content


def _all_but(lost: Change) -> Callable[[Change], bool]:
    return lambda change: change is not lost


def _only(kept: Change) -> Callable[[Change], bool]:
    return lambda change: change is kept


def drawn(draw: random.Random) -> Outcome:
    """What a power cut leaves, at random."""
    share = draw.choice((0.0, 0.3, 0.7, 1.0))
    contents = draw.choice((CONTENTS, ("new",), ("old",), ("new", "torn"), ("zeros", "hole")))
    return Outcome(lambda change: draw.random() < share, lambda file: draw.choice(contents))


@dataclass
class Crash:
    """A state that a crash left: the disk, the object store, and what had been promised by then."""

    faults: tuple[str, ...]
    disk: Disk
    store: Store
    promises: Promises

    @property
    def key(self) -> tuple[str, str, str]:
        return self.disk.state(), repr(sorted(self.store.objects.items())), self.promises.key()


@dataclass
class Explorer:
    """Runs a job through faults, and says what went wrong."""

    world: World
    job: Job
    expected: dict[int, object] = field(default_factory=dict)
    """The result of a job left alone, by the number of its processes."""
    calls: list[Call] = field(default_factory=list)
    prepared: Disk | None = None

    def __post_init__(self) -> None:
        for processes in {1, self.job.processes}:
            machine = self.fresh()
            noted: list[Call] = []
            self._run(machine, processes, noted.append)  # type: ignore[arg-type]
            self.expected[processes] = self.job.result(self.world)
            if processes == 1:
                self.calls = noted
            if wrong := self.job.check(self.world):
                raise AssertionError(f"{self.job.name}: wrong though nothing happened: {wrong}")

    def fresh(self) -> Machine:
        """A machine on which the job can begin."""
        if self.prepared is None:
            machine = Machine()
            self.world.use(machine, Promises())
            self.job.prepare(self.world)
            self.prepared = machine.disk
        machine = Machine(disk=self.prepared.after(KEEPS_ALL))
        self.world.use(machine, Promises())
        self.world.stores[:] = [Store(self.world.system)]
        return machine

    def _run(self, machine: Machine, processes: int, schedule: Schedule | None = None) -> list[Process]:
        works = [self._work(number) for number in range(processes)]
        ended = machine.run(*works, schedule=schedule)
        if schedule is None or not machine.faults:
            for process in ended:
                if process.error is not None:
                    raise process.error
        return ended

    def _work(self, number: int) -> Callable[[], None]:
        return lambda: self.job.work(self.world, number)

    def _wrong(self, faults: tuple[str, ...], lines: list[str]) -> list[Violation]:
        lines = self.world.promises.broken + lines
        return [Violation(self.job.name, faults, line) for line in lines[:3]]

    def after(self, machine: Machine, faults: tuple[str, ...], processes: int = 1) -> list[Violation]:
        """What is wrong after faults: at once, and once the job was begun again and left alone."""
        if wrong := self._checked(faults):
            return wrong
        try:
            self._run(machine, processes)
            wrong = self._checked(faults)
            if not wrong and self.job.result(self.world) != self.expected[processes]:
                wrong = self._wrong(faults, [_difference(self.expected[processes], self.job.result(self.world))])
        except Exception as error:
            return self._wrong(faults, [f"the rerun fails: {type(error).__name__}: {error}"])
        except Stuck as error:
            return self._wrong(faults, [f"the rerun {error}"])
        return wrong

    def _checked(self, faults: tuple[str, ...]) -> list[Violation]:
        try:
            return self._wrong(faults, self.job.check(self.world))
        except Exception as error:
            return self._wrong(faults, [f"cannot be read: {type(error).__name__}: {error}"])

    def crashes(self, every: int = 1) -> list[Crash]:
        """Every state that one crash of the job can leave, each once; or those at every so many system calls."""
        seen: set[tuple[str, str, str]] = set()
        states: list[Crash] = []
        machine = self.fresh()

        def note(call: Call) -> None:
            for name, outcome in outcomes(machine.disk) if call.writes and call.number % every == 0 else ():
                faults = (f"a crash before call {call.number} ({call.name}), {name}",)
                store = copy(self.world.stores[-1])
                store.objects, store.listed, store.before = dict(store.objects), dict(store.listed), dict(store.before)
                crash = Crash(faults, machine.disk.after(outcome), store, self.world.promises.copy())
                if crash.key not in seen:
                    seen.add(crash.key)
                    states.append(crash)

        self._run(machine, 1, note)  # type: ignore[arg-type]
        return states

    def resumed(self, crash: Crash) -> list[Violation]:
        """What is wrong after a crash."""
        machine = Machine(disk=crash.disk)
        self.world.use(machine, crash.promises)
        self.world.stores[:] = [crash.store]
        return self.after(machine, crash.faults)

    def errors(self) -> list[tuple[int, str, bool]]:
        """Each system call with an error in turn; a write fails twice: with half of its bytes written, and with none.

        Half and an error at once is more than a local disk does, which says how much it wrote. NFS may do it.
        """
        cases = [(call, kinds(call)[call.number % len(kinds(call))]) for call in self.calls]
        halves = [(call.number, kind, True) for call, kind in cases if call.name == "write"]
        return [*((call.number, kind, False) for call, kind in cases), *halves]

    def failed(self, number: int, kind: str, half: bool, seen: set[tuple[str, str, str]]) -> list[Violation]:
        """What is wrong after one system call failed; states that were seen before are not looked at again."""
        machine = self.fresh()

        def schedule(call: Call) -> Fault | None:
            return Fault(kind, half=half) if call.number == number else None

        try:
            ended = self._run(machine, 1, schedule)
        except Stuck as error:
            return self._wrong(tuple(machine.faults), [str(error)])
        faults = tuple(machine.faults)
        self.world.promises.damaged = True
        if unexpected := _unexpected(ended):
            return self._wrong(faults, unexpected)
        machine = Machine(disk=machine.disk.after(KEEPS_ALL))
        crash = Crash(faults, machine.disk, self.world.stores[-1], self.world.promises)
        if crash.key in seen:
            return self._checked(faults)
        seen.add(crash.key)
        self.world.use(machine, self.world.promises)
        return self.after(machine, faults)

    def at_random(self, seed: int) -> list[Violation]:
        """Several crashes and errors, with processes that take turns, as a seed decides."""
        draw = random.Random(seed)
        machine = self.fresh()
        machine.turns = draw
        self.world.system.reverse = draw.random() < 0.5
        faults: tuple[str, ...] = ()
        for _ in range(draw.choice((1, 1, 2, 3))):
            schedule = self._drawn_schedule(draw)
            try:
                ended = self._run(machine, draw.randint(1, self.job.processes), schedule)
            except Exception as error:
                return self._wrong(faults, [f"fails: {type(error).__name__}: {error}"])
            except Stuck as error:
                return self._wrong((*faults, *machine.faults), [str(error)])
            faults += tuple(machine.faults)
            if wrong := self._wrong(faults, _unexpected(ended)) or self._checked(faults):
                return wrong
        self.world.promises.damaged = False
        return self.after(machine, faults, self.job.processes)

    def _drawn_schedule(self, draw: random.Random) -> Schedule:
        crash_at = draw.randrange(1, len(self.calls) + 10)
        kind = draw.choice(("kill", "cut"))
        errors = draw.choice((0.0, 0.0, 0.004, 0.02))
        once = [True]

        def schedule(call: Call) -> Fault | None:
            if once[0] and call.number >= crash_at and (call.writes or draw.random() < 0.2):
                once[0] = False
                return Fault(kind, drawn(draw), half=draw.random() < 0.5)
            if errors and draw.random() < errors:
                self.world.promises.damaged = True
                return Fault(draw.choice(kinds(call)), half=draw.random() < 0.5)
            return None

        return schedule


def kinds(call: Call) -> list[str]:
    """The errors that a system call may end with; a full disk does not hinder reading."""
    return [kind for kind in ERRORS if call.writes or kind != "ENOSPC"]


def _unexpected(ended: list[Process]) -> list[str]:
    """Errors that no fault explains."""
    errors = [process.error for process in ended if process.error is not None]
    known = (OSError, WarmstartError, Killed)
    return [f"fails: {type(error).__name__}: {error}" for error in errors if not isinstance(error, known)]


def _difference(expected: object, actual: object) -> str:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted({*expected, *actual}, key=str):
            if name not in actual:
                return f"{name} is missing in the end"
            if name not in expected:
                return f"{name} is there in the end, and should not be"
            if expected[name] != actual[name]:
                return f"{name} differs in the end"
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        return next((_difference(a, b) for a, b in zip(expected, actual, strict=True) if a != b), "")
    return f"the result differs: {actual!r:.200}, expected {expected!r:.200}"
