"""Sweeping: fields of a recipe searched for what does best on the dev rows, one run folder a trial.

Any number of workers, on one machine or on several that share the folder, take trials from one journal. A trial belongs
to the worker that holds its lock, which the system lets go of when the worker dies; the next one finds the trial begun
but not ended and goes on with its run. The run's folder is the truth: what it holds is told to the journal once.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from warmstart.errors import Busy, RecipeError, RunError, TrainingError, nearest
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import FAILURE
from warmstart.experiments.repeat import check_files, strip
from warmstart.experiments.sweep_journal import Journal
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import Recipe, Sweep, absolute, flat, load_sweep
from warmstart.recipe.sweep_files import settings_in
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import write_text
from warmstart.storage.json_files import read_text
from warmstart.storage.locks import alone, claimed

ASKED = "sweep.yaml"
"""The sweep with its recipe, complete."""
PRUNED = "pruned.txt"
"""The file of a trial that was given up, with the reason."""
PAUSE = 1.0
"""Seconds between two looks where all that is left is under way elsewhere."""
MAY_DIFFER = ("threads", "processor", "accelerator")
"""What may differ when a trial goes on: the worker that takes it up need not be on the same machine."""
FREE = ("trials", "budget")
"""What may differ when a sweep goes on."""


class Pruned(Exception):
    """A trial is given up; the message says why."""


def begin(sweep: Sweep, recipe: Recipe, folder: Path) -> None:
    """Lay out a sweep's folder, or find that the one there is of this very sweep."""
    if processes.count() > 1:
        raise RecipeError("sweep: started by torchrun, but a trial is one process; start it as it is, with --workers")
    whole = _whole(sweep, recipe)
    if folder.exists() and not (folder / ASKED).is_file() and any(one.name[0] != "." for one in folder.iterdir()):
        raise RunError(f"{folder} holds files that are no sweep; choose another place with --out")
    with alone(folder / ".sweep.lock"):
        if (folder / ASKED).is_file():
            there, asked = map(_settings, (_whole(*load_sweep(folder / ASKED)), whole))
            other = [key for key in sorted({*there, *asked}) if key not in FREE and there.get(key) != asked.get(key)]
            if other:
                told = "\n".join(f"  {key}: there {there.get(key)!r}, asked for {asked.get(key)!r}" for key in other)
                raise RunError(f"{folder} holds another sweep:\n{told}\nRemove it, or choose another with --out")
        check_files(folder, [absolute(recipe)])
        write_text(folder / ASKED, whole.yaml())
        Journal(folder, whole)


class Worker:
    """One worker on a sweep's folder.

    Args:
        folder: A folder that `begin` laid out.
        deadline: When the last trial may begin, in seconds since 1970.
        workers: How many there are, for the estimate of what is left.
        parent: The process that this one leaves with, once its trial is done.
    """

    def __init__(
        self,
        folder: Path,
        progress: Progress = silent,
        deadline: float | None = None,
        workers: int = 1,
        parent: int | None = None,
    ) -> None:
        self.folder, self.progress, self.workers, self.parent = folder, progress, workers, parent
        self.deadline = deadline
        self.sweep, self.recipe = load_sweep(folder / ASKED)
        self.journal = Journal(folder, self.sweep)
        self.lock = folder / ".sweep.lock"

    def run(self) -> None:
        """Carry out trials until none is left to begin and none is under way, here or elsewhere."""
        waited = False
        while not self._done():
            with ExitStack() as held:
                number = self._take(held)
                if number is None:
                    if not waited and not self._done():
                        self.progress.say("all trials that are left are under way in other processes; waiting")
                    waited = True
                else:
                    try:
                        self._run_trial(number)
                        continue
                    except Busy as error:  # a stage that trials share is made by another worker
                        self.progress.say(str(error))
            time.sleep(PAUSE)

    def _done(self) -> bool:
        return self._orphan() or (self._left() == 0 and not self.journal.trials("RUNNING"))

    def _orphan(self) -> bool:
        """Whether the process that this one belongs to is gone."""
        return self.parent is not None and os.getppid() != self.parent

    def _left(self) -> int:
        """How many trials are still to be begun; none when the time is up."""
        over = self.deadline is not None and time.time() >= self.deadline
        return 0 if over else max(self.sweep.wanted - len(self.journal.trials()), 0)

    def _take(self, held: ExitStack) -> int | None:
        """A trial that is this worker's until `held` ends: one that another left behind, else a new one."""
        with alone(self.lock):
            for trial in self.journal.trials("RUNNING"):
                if held.enter_context(claimed(self._lock_of(trial.number))):
                    return trial.number
            if not self._left():
                return None
            number = self.journal.begin()
            held.enter_context(claimed(self._lock_of(number)))
            return number

    def _lock_of(self, number: int) -> Path:
        return self.folder / "trials" / f".{number}.lock"

    def _run_trial(self, number: int) -> None:
        """Carry out a trial, or go on with it, and tell the journal how it ended."""
        place = trial_folder(self.folder, number)
        if not ended(place):
            trial = self.journal.open(number)
            settings = self.journal.settings(trial)
            self.progress.say(f"trial {number}: {told(settings)}")
            measured = self._measured(trial) if self.sweep.prune != "none" else None
            try:
                recipe = settings_in(self.recipe, settings, f"trial {number}")
                run_recipe(recipe, place, self.progress, resume_anyway=MAY_DIFFER, measured=measured)
            except Pruned as error:
                write_text(place / PRUNED, f"{error}\n")
            except (TrainingError, RecipeError) as error:  # these settings do not go; others may
                place.mkdir(parents=True, exist_ok=True)
                write_text(place / FAILURE, f"{error}\n")
        with alone(self.lock):
            self._tell(number, place)

    def _measured(self, trial: Any) -> Callable[[int, float], None]:
        """Tells the journal what dev says after an epoch, and gives the trial up where the journal says so."""

        def measured(epoch: int, value: float) -> None:
            if self.journal.report(trial, epoch, value):
                raise Pruned(f"given up after epoch {epoch} with {value:.4f} on dev ({self.sweep.prune})")

        return measured

    def _tell(self, number: int, place: Path) -> None:
        """Tell the journal what the run's folder holds, remove what is not needed of it, and say so."""
        value, state, reason = outcome(place, self.sweep.metric)
        self.journal.tell(number, value, state, reason)
        best = self.journal.best()
        for trial in self.journal.trials("COMPLETE", "PRUNED", "FAIL"):
            if best is None or trial.number != best.number:
                strip(trial_folder(self.folder, trial.number))
        line = f"trial {number}: {reason or f'{value:.4f} on dev'}"
        if best is not None:
            line += f"; best so far {best.value:.4f}, trial {best.number}"
        self.progress.say(f"{line}; {self._estimate()}")

    def _estimate(self) -> str:
        """What is left to begin and how long it will take, by the trials so far."""
        took = [one.duration.total_seconds() for one in self.journal.trials("COMPLETE") if one.duration]
        left = self._left()
        if not left:
            return "none left to begin"
        if not took:
            return f"{left} to begin"
        return f"{left} to begin, about {statistics.median(took) * left / self.workers / 60:.1f} min"


def outcome(place: Path, metric: str | None) -> tuple[float | None, str, str]:
    """How a trial ended, by its folder: its value, its state in Optuna's words, and why where it has no value."""
    for name, state in ((FAILURE, "FAIL"), (PRUNED, "PRUNED")):
        if (place / name).is_file():
            return None, state, read_text(place / name, RunError).strip()
    found = RunFolder(place).metrics["dev"]
    name = metric or next(iter(found))  # the task names its metrics with the headline first
    if name not in found:
        raise RecipeError(f"metric: {name} is not measured on dev; {nearest(name, found)}")
    if found[name] is None:
        return None, "FAIL", f"{name} is undefined on dev"
    return float(found[name]), "COMPLETE", ""


def ended(place: Path) -> bool:
    """Whether a trial's run came to an end, good or bad."""
    return any((place / name).is_file() for name in ("metrics.json", FAILURE, PRUNED))


def trial_folder(folder: Path, number: int) -> Path:
    """Where the run of a trial is."""
    return folder / "trials" / str(number)


def told(settings: dict[str, Any]) -> str:
    """Settings in one line."""
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )


def _whole(sweep: Sweep, recipe: Recipe) -> Sweep:
    """The sweep with its recipe in it, paths made absolute."""
    return sweep.model_copy(update={"recipe": absolute(recipe).model_dump(mode="json")})


def _settings(sweep: Sweep) -> dict[str, Any]:
    """Dotted keys and values; when a run saves itself is left out, since that changes no result."""
    found = flat(sweep.model_dump(mode="json"))
    return {key: value for key, value in found.items() if not key.startswith("recipe.checkpoints.")}
