"""The journal of a sweep: Optuna's record of every trial, in a file that all workers append to.

Optuna draws the settings and decides which trials to prune; which worker runs a trial, and that its result is recorded
once, is up to `experiments.sweep`.
"""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warmstart.errors import MissingExtraError
from warmstart.options import Value, Values
from warmstart.recipe import SearchRange, Sweep
from warmstart.storage.files import append, drop_torn_line, torn_at
from warmstart.storage.folders import flush_folder
from warmstart.storage.locks import hold_lock

if TYPE_CHECKING:
    import optuna

FILE = "journal.log"


class Journal:
    """The trials of one sweep, as any worker sees them now.

    Args:
        folder: The sweep's folder.
        sweep: What is searched, and how.
    """

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        self.optuna = load_optuna()
        self.sweep = sweep
        backend = _JournalFile(folder / FILE, self.optuna)
        flush_folder(folder)  # what is appended is flushed, but not the name of the file
        storage = self.optuna.storages.JournalStorage(backend)
        search = {"sampler": self.optuna.samplers.RandomSampler(), "pruner": _pruner(sweep)}
        try:
            self.study: optuna.Study = self.optuna.load_study(study_name="sweep", storage=storage, **search)
        except KeyError:
            self.study = self.optuna.create_study(
                study_name="sweep", storage=storage, direction=sweep.direction, load_if_exists=True, **search
            )

    def trials(self, *states: str) -> list[optuna.trial.FrozenTrial]:
        """The trials that have begun, by number; only those of some states, if any is named."""
        wanted = states or ("RUNNING", "COMPLETE", "PRUNED", "FAIL")
        trials = self.study.get_trials(deepcopy=False, states=[self.optuna.trial.TrialState[name] for name in wanted])
        return sorted(trials, key=lambda trial: trial.number)

    def begin(self) -> int:
        """Begin a trial and give its number; to be called by one worker at a time."""
        waiting = self.optuna.trial.TrialState.WAITING
        if self.sweep.sampler == "grid" and not self.study.get_trials(deepcopy=False, states=[waiting]):
            # In one entry of the journal: a kill leaves a point of the grid waiting, or not begun.
            point = self._grid()[len(self.study.get_trials(deepcopy=False))]
            self.study.enqueue_trial({name: _plain(value) for name, value in point.items()})
        return self.study.ask().number

    def open(self, number: int) -> optuna.trial.Trial:
        """A trial that has begun, to draw its settings and to report on it."""
        trial: optuna.trial.Trial = self.optuna.trial.Trial(self.study, self._frozen(number)._trial_id)
        return trial

    def settings(self, trial: optuna.trial.Trial) -> Values:
        """The settings of a trial; those that are not in the journal yet are drawn.

        Each is drawn from the seed, the trial's number and the field's name: workers do not draw the same, and a kill
        between two fields changes nothing.
        """
        settings = {}
        for name, choices in self.sweep.search.items():
            seed = zlib.crc32(f"{self.sweep.seed}/{trial.number}/{name}".encode())
            self.study.sampler = self._sampler(seed)
            if isinstance(choices, SearchRange):
                settings[name] = _suggest(trial, name, choices)
            else:
                values = {_plain(choice): choice for choice in choices}
                settings[name] = values[trial.suggest_categorical(name, list(values))]
        return settings

    def report(self, trial: optuna.trial.Trial, epoch: int, value: float) -> bool:
        """Report a trial's value after an epoch, once; whether the trial is to be pruned."""
        if epoch not in self._frozen(trial.number).intermediate_values:
            trial.report(value, epoch)
        return trial.should_prune()

    def tell(self, number: int, value: float | None, state: str, reason: str = "") -> None:
        """End a trial; one that has ended is refused."""
        if reason:
            self.study._storage.set_trial_user_attr(self._frozen(number)._trial_id, "reason", reason)
        self.study.tell(number, value, self.optuna.trial.TrialState[state])

    def best(self) -> optuna.trial.FrozenTrial | None:
        """The best of the completed trials, the first of equals; None where there is none."""
        sign = 1 if self.sweep.direction == "maximize" else -1
        return max(
            self.trials("COMPLETE"), key=lambda trial: (sign * (trial.value or 0.0), -trial.number), default=None
        )

    def importances(self) -> dict[str, float]:
        """The share of the variance of values that each field accounts for; empty where trials are too few.

        By fANOVA: "An Efficient Approach for Assessing Hyperparameter Importance", Hutter et al. 2014.
        """
        done = self.trials("COMPLETE")
        if len(done) < 4 or len({trial.value for trial in done}) < 2:
            return {}
        evaluator = self.optuna.importance.FanovaImportanceEvaluator(seed=self.sweep.seed)
        shares = self.optuna.importance.get_param_importances(self.study, evaluator=evaluator)
        return {name: float(value) for name, value in shares.items() if not math.isnan(value)}

    def _frozen(self, number: int) -> optuna.trial.FrozenTrial:
        return self.study.get_trials(deepcopy=False)[number]

    def _grid(self) -> list[Values]:
        """Every point once, in an order drawn from the seed: a grid that is cut short has seen a bit of everything."""
        points = list(self.sweep.grid())
        random.Random(self.sweep.seed).shuffle(points)
        return points

    def _sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        kind = {"tpe": self.optuna.samplers.TPESampler}.get(self.sweep.sampler, self.optuna.samplers.RandomSampler)
        sampler: optuna.samplers.BaseSampler = kind(seed=seed)
        return sampler


def load_optuna() -> ModuleType:
    """Optuna, without its log messages."""
    try:
        import optuna
        import optuna.storages.journal
    except ImportError:
        raise MissingExtraError("a sweep needs Optuna: pip install 'warmstart[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class _JournalFile:
    """Optuna's journal file, which one process at a time appends to; its death releases the lock at once.

    Optuna's own lock is a file that a killed process leaves behind, and all others then wait half a minute; and its own
    append writes an entry that failed half-way once more. Here half an entry is cut off before the next is appended.
    """

    def __init__(self, path: Path, optuna: ModuleType) -> None:
        self.path = path
        if torn_at(path) is not None:  # Optuna reads before it writes, and stops at what a power cut left
            with self._held():
                pass
        self.read_logs = optuna.storages.journal.JournalFileBackend(str(path)).read_logs

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with self._held():
            append(self.path, lines.encode())

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the lock on a journal whose last entry is whole."""
        with hold_lock(self.path.with_name(f".{self.path.name}.lock")):
            drop_torn_line(self.path)
            yield


def _pruner(sweep: Sweep) -> optuna.pruners.BasePruner:
    pruners = load_optuna().pruners
    names = {"none": pruners.NopPruner, "median": pruners.MedianPruner, "hyperband": pruners.HyperbandPruner}
    pruner: optuna.pruners.BasePruner = names[sweep.pruner]()
    return pruner


def _suggest(trial: optuna.trial.Trial, name: str, choices: SearchRange) -> float:
    if choices.integer:
        low, high, step = int(choices.low), int(choices.high), int(choices.step or 1)
        return trial.suggest_int(name, low, high, step=step, log=choices.log)
    return trial.suggest_float(name, choices.low, choices.high, step=choices.step, log=choices.log)


def _plain(value: Value) -> Value:
    """A choice as Optuna stores it: a list or a mapping becomes text."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value
