"""The jobs that crashes are tried on, each with what must hold at any time and what must be there in the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import simulated_labelling
import simulated_sweep
import simulated_training
from simulated_disk import ROOT
from simulated_labelling import STORE, Store, label, place_corpus
from simulated_machine import Machine
from simulated_system import System, simulated
from simulated_training import CACHE, ROWS, Promises, StandIns, single
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.manifest import MANIFEST as CORPUS_MANIFEST
from warmstart.deploy.label.verification import corpus_damages
from warmstart.errors import BusyError, RunError
from warmstart.evaluation.records.metrics import FILE as METRICS
from warmstart.experiments.sweep import has_ended, trial_folder
from warmstart.experiments.sweep_journal import FILE as JOURNAL
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.pipeline.stage_store import is_finished, remove_stage, stored_stages
from warmstart.storage import folders
from warmstart.storage.artifacts import MANIFEST, recover, republish, verify
from warmstart.storage.damages import damages
from warmstart.storage.files import write_text
from warmstart.studies.figures import FigureFile

RUN, STAGED, OUT = Path(ROOT) / "run", Path(ROOT) / "staged", f"{ROOT}/out"
FIGURES = Path(ROOT) / "study" / "figures.jsonl"
ENDED = (1, 2, 3)
"""Optuna's numbers for a trial that has ended."""


class World:
    """The system under all jobs, and what was promised on it."""

    def __init__(self) -> None:
        self.system = System()
        self.stand_ins = StandIns()
        self.stores = [Store(self.system)]

    @property
    def promises(self) -> Promises:
        return self.stand_ins.promises

    def use(self, machine: Machine, promises: Promises, reverse: bool = False) -> None:
        self.system.use(machine, reverse)
        folders._flushed.clear()
        self.stand_ins.promises = promises

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Lead all calls to the simulation."""
        simulated_sweep.wanted()
        with (
            simulated(self.system),
            simulated_training.in_miniature(self.stand_ins),
            simulated_labelling.in_miniature(self.system, self.stores),
            simulated_sweep.in_miniature(),
        ):
            yield


@dataclass(frozen=True)
class Job:
    """Work that may crash at any time and be begun again.

    Attributes:
        work: What a process does; with the process's number among those that run at once.
        check: What is wrong at this moment: all that is called finished must be complete.
        result: What must be the same in the end, whatever happened.
    """

    name: str
    work: Callable[[World, int], None]
    check: Callable[[World], list[str]]
    result: Callable[[World], object]
    prepare: Callable[[World], None] = lambda world: None
    processes: int = 2


def visible(world: World, *folders: Path) -> dict[str, bytes]:
    """All files but hidden ones."""
    files = world.system.machine.disk.files()
    return {
        name: data
        for name, data in files.items()
        if "/." not in name and any(name.startswith(f"{folder}/") for folder in folders)
    }


def fit_into(world: World, folder: Path, model: str) -> None:
    """Train, waiting while another process trains into the same folder or the same stage."""
    while not (folder / METRICS).is_file():
        try:
            run_recipe(single(model), folder)
        except BusyError:
            time.sleep(5.0)
        except RunError as error:
            if "holds a finished run" not in str(error):
                raise
    world.promises.finished.add(folder)


def check_run(world: World, folder: Path) -> list[str]:
    """A run that is called finished is complete, and one that was promised is finished."""
    if not (folder / METRICS).is_file():
        return [f"{folder}: was finished, and is no more"] if folder in world.promises.finished else []
    missing = [name for name in (MANIFEST, f"model/{MANIFEST}", "recipe.yaml") if not (folder / name).is_file()]
    return [f"{folder}: is finished, but has no {name}" for name in missing] + damages(folder)


def fit(world: World, number: int) -> None:
    """One training."""
    fit_into(world, RUN, "plain")


def fit_staged(world: World, number: int) -> None:
    """Two runs over the same stages: the second uses the fine-tuning of the first."""
    for folder in (STAGED, STAGED.with_name("again")) if number == 0 else (STAGED.with_name("other"),):
        fit_into(world, folder, "staged")


def check_staged(world: World) -> list[str]:
    """All runs and all stages that are called finished are complete."""
    lines = [line for name in ("staged", "again", "other") for line in check_run(world, STAGED.with_name(name))]
    for stage in stored_stages(CACHE / "stages") if (CACHE / "stages").is_dir() else ():
        lines += check_stage(stage.folder)
    return lines


def check_stage(folder: Path) -> list[str]:
    """A stage that is called finished is complete."""
    if not is_finished(folder):
        return []
    model = folder / "model" / ("model.safetensors" if folder.name.startswith("scratch") else MANIFEST)
    return damages(folder) if model.is_file() else [f"{folder}: is called finished, but has no {model.name}"]


def remove_and_fit(world: World, number: int) -> None:
    """Remove a stage, and need it again."""
    world.promises.attempts += 1
    if world.promises.attempts == 1:
        for stage in stored_stages(CACHE / "stages"):
            if stage.stage == "pretrain":
                remove_stage(stage)
    fit_into(world, STAGED.with_name("later"), "staged")


def check_removed(world: World) -> list[str]:
    """A folder that is called a finished stage is complete, listed or not."""
    folders = (CACHE / "stages").glob("[!.]*-*[!n]") if (CACHE / "stages").is_dir() else ()
    lines = [line for folder in folders if folder.is_dir() for line in check_stage(folder)]
    return lines + check_run(world, STAGED.with_name("later"))


def staged_result(world: World) -> object:
    """The files of all runs and of the store."""
    return visible(world, CACHE, *(STAGED.with_name(name) for name in ("staged", "again", "other")))


def calibrate(world: World, number: int) -> None:
    """Publish a finished model anew, with a file changed."""
    with republish(RUN / "model") as staging:
        write_text(staging / "temperature.json", "2\n")


def check_model(world: World) -> list[str]:
    """The model is there, with the card that the user wrote; a kill may have left it aside."""
    try:
        recover(RUN / "model")
        verify(RUN / "model")
        card = (RUN / "model" / "README.md").is_file()
    except (RunError, OSError) as error:
        return [str(error)]
    return [] if card else [f"{RUN / 'model'}: the model card is gone"]


def label_here(world: World, number: int) -> None:
    """Label into a folder."""
    label(OUT)
    world.promises.finished.add(Path(OUT))


def label_away(world: World, number: int) -> None:
    """Label into an object store."""
    label(STORE)
    world.promises.finished.add(Path(STORE))


def check_corpus(out: str) -> Callable[[World], list[str]]:
    """A labelled corpus that has its manifest is complete."""

    def check(world: World) -> list[str]:
        folder = Folder(out)
        if folder.read(CORPUS_MANIFEST) is None:
            return [f"{out}: was finished, and is no more"] if Path(out) in world.promises.finished else []
        return [line for line in corpus_damages(folder) if out != STORE or "no manifest lists it" not in line]

    return check


def corpus_result(world: World) -> object:
    """The files of the labelled corpus."""
    files = visible(world, Path(OUT))
    return {name: data for name, data in files.items() if name != f"{OUT}/lock"}


def store_result(world: World) -> object:
    """The objects of the labelled corpus."""
    return dict(world.stores[-1].objects)


def search(world: World, number: int) -> None:
    """Take part in a sweep."""
    simulated_sweep.search()
    world.promises.finished.add(simulated_sweep.FOLDER)


def check_sweep(world: World) -> list[str]:
    """What the journal says has ended is there, once; every trial's run is complete if it is finished."""
    folder = simulated_sweep.FOLDER
    lines = []
    for number in range(simulated_sweep.TRIALS):
        run = trial_folder(folder, number)
        if (run / METRICS).is_file():
            lines += damages(run) if (run / MANIFEST).is_file() else [f"{run}: is finished, but has no {MANIFEST}"]
    for number, count in endings(world).items():
        lines += [f"trial {number} was recorded {count} times"] if count > 1 else []
        lines += [] if has_ended(trial_folder(folder, number)) else [f"trial {number} has ended, but not its run"]
    if folder in world.promises.finished and not (folder / "results.json").is_file():
        lines.append(f"{folder}: was finished, and is no more")
    return lines


def endings(world: World) -> Counter[int]:
    """How often the journal says that each trial has ended."""
    journal = world.system.machine.disk.files().get(f"{simulated_sweep.FOLDER}/{JOURNAL}", b"")
    ended: Counter[int] = Counter()
    for line in journal.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:  # half an entry, which the next worker cuts off
            continue
        if entry.get("state") in ENDED and "trial_id" in entry:
            ended[entry["trial_id"]] += 1
    return ended


def sweep_result(world: World) -> object:
    """The trials with their settings and values, and all files of their runs; times differ."""
    results = json.loads((simulated_sweep.FOLDER / "results.json").read_text(encoding="utf-8"))
    trials = [(trial["number"], trial["state"], trial["value"], trial["settings"]) for trial in results["trials"]]
    files = visible(world, simulated_sweep.FOLDER / "trials")
    return trials, results["best"]["number"], results["finished"], endings(world), files


def measure(world: World, number: int) -> None:
    """Keep the figures of two measurements."""
    file = FigureFile(FIGURES)
    for seed in (number, number + 2):
        result = SimpleNamespace(
            variant="plain", seed=seed, headline="accuracy", value=0.5, steps=1, seconds=1.0, failed="",
            metrics={}, scores=np.array([0.0, 1.0]),
        )  # fmt: skip
        file.keep(result, f"key-{seed}", 1.0)  # type: ignore[arg-type]
        world.promises.finished.add(Path(str(seed)))


def check_figures(world: World) -> list[str]:
    """Figures that were kept are there."""
    kept = {int(key.removeprefix("key-")) for _, key in FigureFile(FIGURES).read()}
    lost = {int(str(seed)) for seed in world.promises.finished} - kept
    return [f"{FIGURES}: the figures of seed {seed} are gone" for seed in sorted(lost)]


def figures_result(world: World) -> object:
    """Which figures are there."""
    return sorted(FigureFile(FIGURES).read())


def place_rows(world: World) -> None:
    """A file of rows, on disk."""
    world.system.machine.disk.create(ROWS)
    _sync(world)


def place_run(world: World) -> None:
    """A finished run, with a model card, all on disk."""
    place_rows(world)
    fit(world, 0)
    (RUN / "model" / "README.md").write_text("my model", encoding="utf-8")
    _sync(world)


def place_stages(world: World) -> None:
    """A finished run with its stages, on disk."""
    place_rows(world)
    fit_into(world, STAGED, "staged")
    _sync(world)


def place_texts(world: World) -> None:
    """A corpus, on disk."""
    place_corpus(world.system.machine)


def _sync(world: World) -> None:
    for node in list(world.system.machine.disk.dirty):
        world.system.machine.disk.sync(node)


JOBS = {
    job.name: job
    for job in (
        Job("fit", fit, lambda world: check_run(world, RUN), lambda world: visible(world, RUN), place_rows),
        Job("stages", fit_staged, check_staged, staged_result, place_rows),
        Job("labelling", label_here, check_corpus(OUT), corpus_result, place_texts),
        Job("labelling, object store", label_away, check_corpus(STORE), store_result, place_texts),
        Job("sweep", search, check_sweep, sweep_result, place_rows),
        Job("study", measure, check_figures, figures_result),
        Job("model published anew", calibrate, check_model, lambda world: visible(world, RUN), place_run, processes=1),
        Job("stage removed", remove_and_fit, check_removed, lambda world: visible(world, CACHE), place_stages, 1),
    )
}
