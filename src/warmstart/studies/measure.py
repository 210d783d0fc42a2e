"""Measuring a study: each measurement once, whoever takes it first, its figures kept when it ends."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from warmstart.errors import RecipeError, StoppedError, WarmstartError
from warmstart.evaluation.run_result import RunResult
from warmstart.experiments.repeat import repeat
from warmstart.models.loading import load_config
from warmstart.models.precision import resolve_precision
from warmstart.options import Values
from warmstart.pipeline.fingerprint import fingerprint
from warmstart.recipe import Recipe, flat
from warmstart.recipe.recipe import stages_from
from warmstart.recipe.study import Study, StudyMethod, StudySize
from warmstart.runtime.environment import environment
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import checksum
from warmstart.storage.locks import try_lock
from warmstart.studies.cells import Cell, Measurement, StudyPart, cells, measurements
from warmstart.studies.choices import chosen
from warmstart.studies.draws import write_draw
from warmstart.studies.figures import FigureFile, KeptResult
from warmstart.studies.peers import peer_result, run_peer

VERSIONS = ("torch", "transformers")
PRECISIONS = ("bf16", "fp32", "fp16", "unknown")
"""Of other machines; unknown where a figure was kept before its precision was."""
PAUSE = 2.0
"""Seconds between two looks at measurements that other processes have taken."""


@dataclass(frozen=True)
class StudyRunner:
    """A study, the encoder it is measured with, and where its files are."""

    study: Study
    folder: Path
    """The study's own folder, in which figures are kept."""
    model: str
    work: Path
    """A folder for rows and runs."""
    progress: Progress = silent
    errors: list[str] = field(default_factory=list)
    """What measurements failed with."""

    def run(self, part: StudyPart) -> None:
        """Measure what has no figures yet; the same call in other processes takes part in it."""
        waiting = measurements(self.study, part)
        while waiting := [one for one in waiting if self.kept(one) is None]:
            tried = [self._try(one) for one in waiting]
            if not any(tried):
                time.sleep(PAUSE)
            waiting = [one for one, mine in zip(waiting, tried, strict=True) if not mine]

    def kept(self, one: Measurement) -> KeptResult | None:
        """The figures of a measurement, where they are of today's settings and of this machine's precision."""
        return self.figures(one.cell).read().get((one.method, self._key(one)))

    def results(self, part: StudyPart) -> dict[Cell, list[KeptResult]]:
        """All figures of a part that are there, by cell; of another precision where there are none of this machine's.

        A machine without fast bf16 can so write the page of figures from one that has it.
        """
        results: dict[Cell, list[KeptResult]] = {}
        kept = {cell: self.figures(cell).read() for cell in cells(self.study, part)}
        for one in measurements(self.study, part):
            if all(method != one.method for method, _ in kept[one.cell]):
                continue  # without its rows: they may not be prepared
            keys = (self._key(one, precision) for precision in (None, *PRECISIONS))
            result = next(
                (kept[one.cell][one.method, key] for key in keys if (one.method, key) in kept[one.cell]), None
            )
            if result is not None:
                results.setdefault(one.cell, []).append(result)
        return {cell: [*rows, *chosen(self.study.choices, rows)] for cell, rows in results.items()}

    def figures(self, cell: Cell) -> FigureFile:
        """Where the figures of a cell are kept."""
        return FigureFile(self.folder / "figures" / Path(self.model).name / f"{cell.name}.jsonl")

    def _try(self, one: Measurement) -> bool:
        """Measure, unless another process does or has just done it; whether it was tried here."""
        lock = self.work / "locks" / one.name
        with try_lock(lock, remove=True) as mine:
            if not mine:
                return False
            if self.kept(one) is None:
                self.progress.log(one.name)
                try:
                    self._measure(one)
                except WarmstartError as error:
                    if isinstance(error, RecipeError | StoppedError):
                        raise
                    self.errors.append(f"{one.name}: {error}")
                    self.progress.log(self.errors[-1])
        return True

    def _measure(self, one: Measurement) -> None:
        recipe, key = self.recipe(one), self._key(one)
        folder = self.work / "runs" / one.cell.name / key
        began = _cpu_seconds()
        if (peer := self.study.peers.get(one.method)) is not None:
            written = run_peer(peer, self.folder / peer.script, self._job(recipe), folder)
            result: RunResult = peer_result(one.method, recipe, written["answers"], written["seconds"], folder)
            spent = float(written["cpu_seconds"])
        else:
            whole = stages_from(recipe, (self.folder / self.study.data).resolve())
            (result,) = repeat(whole, {one.method: {}}, [one.seed], folder, silent, keep="numbers")
            spent = _cpu_seconds() - began
        precision = "" if one.method in self.study.peers else self._precision(recipe)
        self.figures(one.cell).keep(result, key, spent, precision)

    def recipe(self, one: Measurement) -> Recipe:
        """The complete recipe of a measurement; a peer's says what rows there are, and how answers are measured."""
        method = self.study.all_methods().get(one.method, StudyMethod())
        values = self.study.fields(one.cell.set, method, self.model)
        columns = {"columns": {"pair": "pair"}} if self.study.sets[one.cell.set].pairs else {}
        files = {"train": str(self._drawn(one)), "test": str(self._test(one.cell))}
        data = {**columns, **values.get("data", {}), **files}
        whole = {**values, "seed": one.seed, "data": data}
        return Recipe.check(whole, f"{self.folder}: {one.method}")

    def _job(self, recipe: Recipe) -> Values:
        files = {part: (recipe.data.reading(part) or {})["files"][0] for part in ("train", "test")}
        return {
            **files,
            "task": recipe.task.name,
            "model": recipe.model,
            "seed": recipe.seed,
            "max_tokens": recipe.window.max_tokens or 128,
        }

    def _precision(self, recipe: Recipe) -> str:
        return str(resolve_precision(recipe.training.precision, load_config(self.model)))

    def _key(self, one: Measurement, precision: str | None = None) -> str:
        """All that a figure depends on, in a few characters.

        Args:
            precision: That of another machine; None for this one's.
        """
        recipe = self.recipe(one)
        of: Values = {
            "train": _sha256(self._drawn(one)),
            "test": _sha256(self._test(one.cell)),
            "model": recipe.model and _fingerprint(recipe.model),
        }
        if (peer := self.study.peers.get(one.method)) is not None:
            of |= {"script": _sha256(self.folder / peer.script), "job": {**self._job(recipe), **of}}
        else:
            here = environment()["versions"]
            of |= {
                "recipe": _own_settings(recipe),
                "revision": self.study.all_methods()[one.method].revision,
                "precision": precision or self._precision(recipe),
                **{name: here[name] for name in VERSIONS},
            }
        return hashlib.sha256(json.dumps(of, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def _drawn(self, one: Measurement) -> Path:
        file = self._file(one.cell, "train")
        path = self.work / "data" / f"{one.cell.name}-{one.seed}{file.suffix}"
        if not path.is_file():
            columns = self.study.sets[one.cell.set].columns
            write_draw(file, self.study.sizes[one.cell.size], one.seed, path, columns)
        return path

    def _test(self, cell: Cell) -> Path:
        """The file of test rows, or a copy of it whose columns are named as peers expect it."""
        file, columns = self._file(cell, "test"), self.study.sets[cell.set].columns
        if not columns:
            return file
        path = (self.work / "data" / f"{cell.set}-test.csv").resolve()
        if not path.is_file():
            write_draw(file, StudySize(fixed=True), 0, path, columns)
        return path

    def _file(self, cell: Cell, part: str) -> Path:
        path = self.folder / self.study.data / str(getattr(self.study.sets[cell.set], part))
        if not path.is_file():
            raise RecipeError(f"{path}: sets.{cell.set}.{part} is missing; prepare the sets first")
        return path.resolve()


def _own_settings(recipe: Recipe) -> Values:
    """What a recipe sets itself, but for its files and model: a field that is new in warmstart changes no figure."""
    own = flat(recipe.model_dump(mode="json", exclude_defaults=True))
    return {name: value for name, value in own.items() if name not in ("model", "data.train", "data.test")}


@cache
def _sha256(path: Path) -> str:
    return str(checksum(path)["sha256"])


@cache
def _fingerprint(model: str) -> str:
    return fingerprint(model)


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
