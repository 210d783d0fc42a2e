"""Hyperparameter search: the fields of a recipe that do best on the dev rows, one run folder per trial.

Any number of workers, on one machine or on several that share the folder, take trials from one journal. A trial belongs
to the worker that holds its lock, which the system releases when the worker dies; the next worker sees that the trial
has begun but not ended, and resumes its run. The run's folder is the truth: its result is written to the journal once.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import BusyError, RecipeError, RunError, TrainingError, nearest
from warmstart.evaluation.records import metrics as metrics_record
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import FAILURE
from warmstart.experiments.repeat import FILES, check_files, remove_weights
from warmstart.experiments.sweep_journal import Journal
from warmstart.options import Value
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import Recipe, Sweep, absolute, flat, load_sweep
from warmstart.recipe.sweep_files import settings_in
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.files import write_text
from warmstart.storage.folders import make_folder
from warmstart.storage.json_files import read_text
from warmstart.storage.locks import hold_lock, try_lock

if TYPE_CHECKING:
    import optuna

SWEEP = "sweep.yaml"
"""The sweep with its recipe, complete."""
PRUNED = "pruned.txt"
"""The file of a trial that was pruned, with the reason."""
PAUSE = 1.0
"""Seconds between two checks where all remaining trials are running elsewhere."""
MAY_DIFFER = ("threads", "processor", "accelerator")
"""What may differ when a trial is resumed: the worker that takes it up need not be on the same machine."""
FREE = ("trials", "timeout")
"""What may differ when a sweep is resumed."""


class TrialPruned(Exception):
    """A trial is stopped early; the message says why."""


def begin_sweep(sweep: Sweep, recipe: Recipe, folder: Path) -> None:
    """Set up a sweep's folder, or check that the one there is of this very sweep."""
    if processes.world_size() > 1:
        raise RecipeError(
            "sweep: started by torchrun, but a trial is one process; start it without torchrun, with --workers"
        )
    complete = _complete(sweep, recipe)
    strange = folder.exists() and any(map(_is_strange, folder.iterdir()))
    if strange and not (folder / SWEEP).is_file():  # looked up last: another process may be setting up the same sweep
        raise RunError(f"{folder} holds files that are no sweep; choose another folder with --out")
    with hold_lock(folder / ".sweep.lock"):
        if (folder / SWEEP).is_file():
            there, here = map(_settings, (_complete(*load_sweep(folder / SWEEP)), complete))
            other = [key for key in sorted({*there, *here}) if key not in FREE and there.get(key) != here.get(key)]
            if other:
                lines = "\n".join(f"  {key}: there {there.get(key)!r}, here {here.get(key)!r}" for key in other)
                raise RunError(f"{folder} holds another sweep:\n{lines}\nRemove it, or choose another with --out")
        check_files(folder, [absolute(recipe)])
        write_text(folder / SWEEP, complete.yaml())
        Journal(folder, complete)


class SweepWorker:
    """One worker on a sweep's folder.

    Args:
        folder: A folder that `begin_sweep` set up.
        deadline: When the last trial may begin, in seconds since 1970.
        workers: How many there are, for the estimate of the time left.
        parent: The process that this one ends with, once its trial is done.
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
        self.sweep, self.recipe = load_sweep(folder / SWEEP)
        self.journal = Journal(folder, self.sweep)
        self.lock = folder / ".sweep.lock"

    def run(self) -> None:
        """Run trials until none is left to begin and none is running, here or elsewhere."""
        waited = False
        while not self._done():
            with ExitStack() as held:
                number = self._take(held)
                if number is None:
                    if not waited and not self._done():
                        self.progress.log("all remaining trials are running in other processes; waiting")
                    waited = True
                else:
                    try:
                        self._run_trial(number)
                        continue
                    except BusyError as error:  # a stage that trials share is being trained by another worker
                        self.progress.log(str(error))
            time.sleep(PAUSE)
        if not self._orphan():
            with hold_lock(self.lock):
                self._remove_weights()  # once more: a worker may have been killed before it came to that

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
        """A trial that is this worker's until `held` is closed: one that another left behind, else a new one."""
        with hold_lock(self.lock):
            for trial in self.journal.trials("RUNNING"):
                if held.enter_context(try_lock(self._lock_of(trial.number))):
                    return trial.number
            if not self._left():
                return None
            number = self.journal.begin()
            held.enter_context(try_lock(self._lock_of(number)))
            return number

    def _lock_of(self, number: int) -> Path:
        return self.folder / "trials" / f".{number}.lock"

    def _run_trial(self, number: int) -> None:
        """Run or resume a trial, and record in the journal how it ended."""
        folder = trial_folder(self.folder, number)
        if not has_ended(folder):
            trial = self.journal.open(number)
            settings = self.journal.settings(trial)
            self.progress.log(f"trial {number}: {listed(settings)}")
            report = self._reporter(trial) if self.sweep.pruner != "none" else None
            try:
                recipe = settings_in(self.recipe, settings, f"trial {number}")
                run_recipe(recipe, folder, self.progress, resume_anyway=MAY_DIFFER, measured=report)
            except TrialPruned as error:
                write_text(folder / PRUNED, f"{error}\n")
            except (TrainingError, RecipeError) as error:  # these settings do not work; others may
                make_folder(folder)
                write_text(folder / FAILURE, f"{error}\n")
        with hold_lock(self.lock):
            self._record(number, folder)

    def _reporter(self, trial: optuna.trial.Trial) -> Callable[[int, float], None]:
        """Reports the score on dev after an epoch to the journal, and prunes the trial where Optuna says so."""

        def report(epoch: int, value: float) -> None:
            if self.journal.report(trial, epoch, value):
                raise TrialPruned(f"pruned after epoch {epoch} with {value:.4f} on dev ({self.sweep.pruner})")

        return report

    def _record(self, number: int, folder: Path) -> None:
        """Record the result of a trial's run in the journal, remove weights that are not needed, and log it."""
        value, state, reason = outcome(folder, self.sweep.metric)
        self.journal.tell(number, value, state, reason)
        best = self._remove_weights()
        line = f"trial {number}: {reason or f'{value:.4f} on dev'}"
        if best is not None:
            line += f"; best so far {best.value:.4f}, trial {best.number}"
        self.progress.log(f"{line}; {self._estimate()}")

    def _remove_weights(self) -> optuna.trial.FrozenTrial | None:
        """Remove the weights of all trials that have ended but the best, which is returned."""
        best = self.journal.best()
        for trial in self.journal.trials("COMPLETE", "PRUNED", "FAIL"):
            if best is None or trial.number != best.number:
                remove_weights(trial_folder(self.folder, trial.number))
        return best

    def _estimate(self) -> str:
        """How many trials are left to begin, and how long they will take by the trials so far."""
        took = [trial.duration.total_seconds() for trial in self.journal.trials("COMPLETE") if trial.duration]
        left = self._left()
        if not left:
            return "none left to begin"
        if not took:
            return f"{left} to begin"
        return f"{left} to begin, about {statistics.median(took) * left / self.workers / 60:.1f} min"


def outcome(folder: Path, metric: str | None) -> tuple[float | None, str, str]:
    """How a trial ended, by its folder: its value, its state in Optuna's words, and why where it has no value."""
    for name, state in ((FAILURE, "FAIL"), (PRUNED, "PRUNED")):
        if (folder / name).is_file():
            return None, state, read_text(folder / name, RunError).strip()
    metrics = RunFolder(folder).metrics["dev"]
    name = metric or next(iter(metrics))  # the headline is the task's first metric
    if name not in metrics:
        raise RecipeError(f"metric: {name} is not measured on dev; {nearest(name, metrics)}")
    value = metrics[name]
    if value is None:
        return None, "FAIL", f"{name} is undefined on dev"
    return float(value), "COMPLETE", ""


def has_ended(folder: Path) -> bool:
    """Whether a trial's run has ended, well or badly."""
    return any((folder / name).is_file() for name in (metrics_record.FILE, FAILURE, PRUNED))


def trial_folder(folder: Path, number: int) -> Path:
    """Where the run of a trial is."""
    return folder / "trials" / str(number)


def listed(settings: dict[str, Value]) -> str:
    """Settings in one line."""
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )


def _is_strange(path: Path) -> bool:
    """Whether a file is no part of a sweep that was stopped while its folder was set up."""
    return path.name[0] != "." and path.name != FILES


def _complete(sweep: Sweep, recipe: Recipe) -> Sweep:
    """The sweep with its recipe in it, paths made absolute."""
    return sweep.model_copy(update={"recipe": absolute(recipe).model_dump(mode="json")})


def _settings(sweep: Sweep) -> dict[str, object]:
    """Dotted keys and values, except when a run saves checkpoints: that changes no result."""
    settings = flat(sweep.model_dump(mode="json"))
    return {key: value for key, value in settings.items() if not key.startswith("recipe.checkpoints.")}
