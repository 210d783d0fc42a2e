"""The results of a sweep: its trials, the best of them with its recipe, and which fields mattered; written, plotted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import MissingExtraError, RunError
from warmstart.evaluation.records.files import as_json
from warmstart.evaluation.run import RunFolder
from warmstart.experiments.sweep import SWEEP, trial_folder
from warmstart.experiments.sweep_journal import Journal
from warmstart.experiments.sweep_plots import plot_history, plot_importances
from warmstart.options import Values
from warmstart.recipe import load_sweep
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.files import write_json, write_text
from warmstart.storage.json_files import JsonObject
from warmstart.storage.locks import hold_lock

BEST = "best.yaml"
"""The recipe of the best trial."""
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}
"""Optuna's states of a trial, as they are shown."""


@dataclass(frozen=True)
class TrialResult:
    """One trial of a sweep."""

    number: int
    state: str
    """complete, pruned, failed or running (here, elsewhere, or left behind by a worker that died)."""
    value: float | None
    """The metric on dev; of a pruned trial after its last epoch."""
    settings: Values
    seconds: float | None
    """From its beginning to its end, pauses included."""
    reason: str
    """Why it was pruned or failed."""


@dataclass(frozen=True)
class SweepResults:
    """The state of a sweep, read from its folder."""

    folder: Path
    metric: str
    wanted: int
    trials: list[TrialResult]
    best: TrialResult | None
    importances: dict[str, float]
    """The share of the variance of values that each field accounts for, largest first; empty for few trials."""

    @property
    def finished(self) -> bool:
        """Whether all trials that are wanted have ended."""
        return sum(trial.state != "running" for trial in self.trials) >= self.wanted

    @property
    def run(self) -> RunFolder | None:
        """The run of the best trial, whose model is kept."""
        return RunFolder(trial_folder(self.folder, self.best.number)) if self.best else None

    def as_json(self) -> JsonObject:
        """All of it as plain values; the test metrics are those of the best trial alone."""
        best = {**as_json(self.best), "run": str(self.run.folder)} if self.best and self.run else None
        if best and self.run and "test" in self.run.metrics:
            best["test"] = self.run.metrics["test"]
        return {
            "sweep": str(self.folder),
            "metric": self.metric,
            "wanted": self.wanted,
            "finished": self.finished,
            "best": best,
            "importances": self.importances,
            "trials": [as_json(trial) for trial in self.trials],
        }


def read_sweep(folder: str | Path) -> SweepResults:
    """The state of a sweep, from its folder; trains nothing."""
    folder = Path(folder)
    if not (folder / SWEEP).is_file():
        raise RunError(f"{folder} is no sweep: it has no {SWEEP}; give a folder that `warmstart sweep` wrote")
    sweep, _ = load_sweep(folder / SWEEP)
    journal = Journal(folder, sweep)
    trials = [
        TrialResult(
            trial.number,
            STATES[trial.state.name],
            trial.value,
            dict(trial.params),
            trial.duration.total_seconds() if trial.duration else None,
            trial.user_attrs.get("reason", ""),
        )
        for trial in journal.trials()
    ]
    winner = journal.best()
    best = next((trial for trial in trials if winner is not None and trial.number == winner.number), None)
    metric = sweep.metric or "headline"
    if best is not None and not sweep.metric:
        metric = next(iter(RunFolder(trial_folder(folder, best.number)).metrics["dev"]))
    return SweepResults(folder, metric, sweep.wanted, trials, best, journal.importances())


def write_results(folder: Path, progress: Progress = silent) -> SweepResults:
    """Write the results of a sweep so far: `best.yaml`, `results.json` and, with matplotlib, two plots."""
    with hold_lock(folder / ".results.lock"):
        results = read_sweep(folder)
        if results.run is None:
            reasons = "; ".join(f"trial {trial.number}: {trial.reason}" for trial in results.trials if trial.reason)
            raise RunError(f"{folder}: no trial has a value to choose by. {reasons or 'None has ended yet'}")
        write_text(folder / BEST, results.run.recipe.yaml())
        write_json(folder / "results.json", results.as_json())
        complete = [trial for trial in results.trials if trial.state == "complete"]
        try:
            values = {trial.number: trial.value for trial in complete if trial.value is not None}
            minimize = load_sweep(folder / SWEEP)[0].direction == "minimize"
            plot_history(values, f"{results.metric} on dev", folder / "history.svg", minimize)
            if results.importances:
                plot_importances(results.importances, folder / "importance.svg")
        except MissingExtraError as error:
            progress.log(f"no plots: {error}")
    return results
