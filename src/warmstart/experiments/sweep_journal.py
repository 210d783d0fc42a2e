"""The journal of a sweep: Optuna's record of every trial, in a file that all workers append to.

Optuna draws the settings and says which trials to give up; who works on a trial, and that its result is told once, is
kept in `experiments.sweep`.
"""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.errors import MissingExtra
from warmstart.recipe import Range, Sweep
from warmstart.storage.locks import alone

if TYPE_CHECKING:
    import optuna

FILE = "journal.log"


class Journal:
    """The trials of one sweep, as any worker sees them at present.

    Args:
        folder: The sweep's folder.
        sweep: What is searched, and how.
    """

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        self.optuna = load_optuna()
        self.sweep = sweep
        backend = self.optuna.storages.journal.JournalFileBackend(str(folder / FILE), _Lock(folder / FILE))
        storage = self.optuna.storages.JournalStorage(backend)
        drawing = {"sampler": self.optuna.samplers.RandomSampler(), "pruner": _pruner(sweep)}
        try:
            self.study: optuna.Study = self.optuna.load_study(study_name="sweep", storage=storage, **drawing)
        except KeyError:
            aim = "maximize" if sweep.goal == "highest" else "minimize"
            self.study = self.optuna.create_study(
                study_name="sweep", storage=storage, direction=aim, load_if_exists=True, **drawing
            )

    def trials(self, *states: str) -> list[optuna.trial.FrozenTrial]:
        """The trials that were begun, by number; of some states only, if any is named."""
        wanted = states or ("RUNNING", "COMPLETE", "PRUNED", "FAIL")
        found = self.study.get_trials(deepcopy=False, states=[self.optuna.trial.TrialState[one] for one in wanted])
        return sorted(found, key=lambda one: one.number)

    def begin(self) -> int:
        """Begin a trial and give its number; to be called by one worker at a time."""
        waiting = self.optuna.trial.TrialState.WAITING
        if self.sweep.sampler == "grid" and not self.study.get_trials(deepcopy=False, states=[waiting]):
            # In one entry of the journal: a kill leaves a point of the grid waiting, or not begun.
            point = self._grid()[len(self.study.get_trials(deepcopy=False))]
            self.study.enqueue_trial({name: _plain(value) for name, value in point.items()})
        return self.study.ask().number

    def open(self, number: int) -> optuna.trial.Trial:
        """A trial that was begun, to draw its settings and to report on it."""
        found: optuna.trial.Trial = self.optuna.trial.Trial(self.study, self._frozen(number)._trial_id)
        return found

    def settings(self, trial: optuna.trial.Trial) -> dict[str, Any]:
        """The settings of a trial; those that are not in the journal yet are drawn.

        Each is drawn from the seed, the trial's number and the field's name: workers do not draw the same, and a kill
        between two fields changes nothing.
        """
        found = {}
        for name, choices in self.sweep.search.items():
            seed = zlib.crc32(f"{self.sweep.seed}/{trial.number}/{name}".encode())
            self.study.sampler = self._sampler(seed)
            if isinstance(choices, Range):
                found[name] = _suggest(trial, name, choices)
            else:
                values = {_plain(one): one for one in choices}
                found[name] = values[trial.suggest_categorical(name, list(values))]
        return found

    def report(self, trial: optuna.trial.Trial, epoch: int, value: float) -> bool:
        """Note a trial's value after an epoch, once; whether the trial is to be given up."""
        if epoch not in self._frozen(trial.number).intermediate_values:
            trial.report(value, epoch)
        return trial.should_prune()

    def tell(self, number: int, value: float | None, state: str, reason: str = "") -> None:
        """End a trial; one that has ended is refused."""
        if reason:
            self.study._storage.set_trial_user_attr(self._frozen(number)._trial_id, "reason", reason)
        self.study.tell(number, value, self.optuna.trial.TrialState[state])

    def best(self) -> optuna.trial.FrozenTrial | None:
        """The best of the trials that came to their end, the first of equals; None where there is none."""
        sign = 1 if self.sweep.goal == "highest" else -1
        return max(self.trials("COMPLETE"), key=lambda one: (sign * (one.value or 0.0), -one.number), default=None)

    def importances(self) -> dict[str, float]:
        """The share of the spread of values that each searched field accounts for; empty where too few tell it.

        By fANOVA: "An Efficient Approach for Assessing Hyperparameter Importance", Hutter et al. 2014.
        """
        done = self.trials("COMPLETE")
        if len(done) < 4 or len({one.value for one in done}) < 2:
            return {}
        evaluator = self.optuna.importance.FanovaImportanceEvaluator(seed=self.sweep.seed)
        found = self.optuna.importance.get_param_importances(self.study, evaluator=evaluator)
        return {name: float(value) for name, value in found.items() if not math.isnan(value)}

    def _frozen(self, number: int) -> optuna.trial.FrozenTrial:
        return self.study.get_trials(deepcopy=False)[number]

    def _grid(self) -> list[dict[str, Any]]:
        """Every point once, in an order drawn from the seed: a grid that is cut short has seen a bit of everything."""
        found = list(self.sweep.grid())
        random.Random(self.sweep.seed).shuffle(found)
        return found

    def _sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        kind = {"tpe": self.optuna.samplers.TPESampler}.get(self.sweep.sampler, self.optuna.samplers.RandomSampler)
        found: optuna.samplers.BaseSampler = kind(seed=seed)
        return found


def load_optuna() -> Any:
    """Optuna, without its chatter."""
    try:
        import optuna
        import optuna.storages.journal
    except ImportError:
        raise MissingExtra("a sweep needs Optuna: pip install 'warmstart[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class _Lock:
    """Optuna's journal file is written by one process at a time, whose death lets go of it at once.

    Optuna's own lock is a file that a killed process leaves behind, and all others then wait half a minute. What a
    kill or a full disk left of a half-written entry is cut off before the next one is added.
    """

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.held: Any = None

    def acquire(self) -> bool:
        self.held = self._hold()
        self.held.__enter__()
        return True

    def release(self) -> None:
        self.held.__exit__(None, None, None)

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with alone(self.journal.with_name(f".{self.journal.name}.lock")):
            mend(self.journal)
            yield


def mend(journal: Path) -> None:
    """Cut off an entry that was not written to its end."""
    if not journal.is_file():
        return
    with journal.open("rb+") as file:
        size = file.seek(0, 2)
        if not size:
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _pruner(sweep: Sweep) -> Any:
    pruners = load_optuna().pruners
    names = {"none": pruners.NopPruner, "median": pruners.MedianPruner, "hyperband": pruners.HyperbandPruner}
    return names[sweep.prune]()


def _suggest(trial: optuna.trial.Trial, name: str, found: Range) -> float:
    if found.whole:
        low, high, step = int(found.low), int(found.high), int(found.step or 1)
        return trial.suggest_int(name, low, high, step=step, log=found.log)
    return trial.suggest_float(name, found.low, found.high, step=found.step, log=found.log)


def _plain(value: Any) -> Any:
    """A choice as Optuna keeps it: a list or a mapping becomes text."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value
