"""What a sweep found: its trials, the best of them with its recipe, and which fields mattered; written and drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warmstart.errors import MissingExtra, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.experiments import sweep_plots as pictures
from warmstart.experiments.sweep import ASKED, trial_folder
from warmstart.experiments.sweep_journal import Journal
from warmstart.recipe import load_sweep
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import write_json, write_text
from warmstart.storage.locks import alone

BEST = "best.yaml"
"""The recipe of the best trial."""
STATES = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "under way"}


@dataclass(frozen=True)
class Trial:
    """One trial of a sweep."""

    number: int
    state: str
    """done, pruned, failed or under way (here, elsewhere, or left behind by a worker that died)."""
    value: float | None
    """The metric on dev; of a pruned trial after its last epoch."""
    settings: dict[str, Any]
    seconds: float | None
    """From its beginning to its end, any time that it lay between included."""
    reason: str
    """Why it was pruned or failed."""


@dataclass(frozen=True)
class Searched:
    """The state of a sweep, read from its folder."""

    folder: Path
    metric: str
    wanted: int
    trials: list[Trial]
    best: Trial | None
    importances: dict[str, float]
    """The share of the spread of values that each field accounts for, largest first; empty where too few tell it."""

    @property
    def finished(self) -> bool:
        """Whether all trials that are wanted have ended."""
        return sum(one.state != "under way" for one in self.trials) >= self.wanted

    @property
    def run(self) -> RunFolder | None:
        """The run of the best trial, whose model is kept."""
        return RunFolder(trial_folder(self.folder, self.best.number)) if self.best else None

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values; the test metrics are those of the best trial alone."""
        best = {**asdict(self.best), "run": str(self.run.folder)} if self.best and self.run else None
        if best and self.run and "test" in self.run.metrics:
            best["test"] = self.run.metrics["test"]
        return {
            "sweep": str(self.folder),
            "metric": self.metric,
            "wanted": self.wanted,
            "finished": self.finished,
            "best": best,
            "importances": self.importances,
            "trials": [asdict(one) for one in self.trials],
        }


def read_sweep(folder: str | Path) -> Searched:
    """The state of a sweep, from its folder; nothing is trained."""
    folder = Path(folder)
    if not (folder / ASKED).is_file():
        raise RunError(f"{folder} is no sweep: it has no {ASKED}; give a folder that `warmstart sweep` wrote")
    sweep, _ = load_sweep(folder / ASKED)
    journal = Journal(folder, sweep)
    trials = [
        Trial(
            one.number,
            STATES[one.state.name],
            one.value,
            dict(one.params),
            one.duration.total_seconds() if one.duration else None,
            one.user_attrs.get("reason", ""),
        )
        for one in journal.trials()
    ]
    found = journal.best()
    best = next((one for one in trials if found is not None and one.number == found.number), None)
    metric = sweep.metric or "headline"
    if best is not None and not sweep.metric:
        metric = next(iter(RunFolder(trial_folder(folder, best.number)).metrics["dev"]))
    return Searched(folder, metric, sweep.wanted, trials, best, journal.importances())


def write_results(folder: Path, progress: Progress = silent) -> Searched:
    """Write down what a sweep has found so far: `best.yaml`, `results.json` and, with matplotlib, two pictures."""
    with alone(folder / ".results.lock"):
        found = read_sweep(folder)
        if found.run is None:
            reasons = "; ".join(f"trial {one.number}: {one.reason}" for one in found.trials if one.reason)
            raise RunError(f"{folder}: no trial gave a number to choose by. {reasons or 'None has ended yet'}")
        write_text(folder / BEST, found.run.recipe.yaml())
        write_json(folder / "results.json", found.as_json())
        try:
            values = {one.number: one.value for one in found.trials if one.state == "done" and one.value is not None}
            lowest = load_sweep(folder / ASKED)[0].goal == "lowest"
            pictures.draw_history(values, f"{found.metric} on dev", folder / "history.svg", lowest)
            if found.importances:
                pictures.draw_importances(found.importances, folder / "importance.svg")
        except MissingExtra as error:
            progress.say(f"no pictures: {error}")
    return found
