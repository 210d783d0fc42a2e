"""What is kept of several seeds: the best one, the mean of their weights, or all of them as an ensemble."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.errors import RunError, TrainingError
from warmstart.evaluation.evaluate import answers
from warmstart.evaluation.run import PREDICTIONS
from warmstart.evaluation.run_result import Row
from warmstart.inference.ensembles import MEMBERS
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.prepare import Parts, fit_task
from warmstart.pipeline.run_recipe import measure
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import MANIFEST, publish, recover, republish, take, verify
from warmstart.tasks.shared.task_config import FILE, save_task


@dataclass(frozen=True)
class Kept:
    """Which runs' models are kept, how, and why."""

    how: str
    """`best`, `average`, `ensemble`, or `one` where nothing could choose."""
    rows: tuple[Row, ...]
    why: str

    @property
    def seed(self) -> int | None:
        """The seed of the model that is kept; None where several are."""
        return self.rows[0].seed if len(self.rows) == 1 else None

    def about(self) -> dict[str, Any]:
        """What the manifest of the kept model says of it."""
        return {"kept": {"how": self.how, "seeds": [row.seed for row in self.rows]}}


def choose(rows: Sequence[Row], how: str) -> Kept:
    """Decide what is kept of one variant's runs; those that failed never are.

    Only dev rows may choose between seeds: the number of the seed that is best on the test rows is too good to be true.
    """
    sound = [row for row in rows if not row.failed]
    if not sound:
        told = "\n".join(f"  seed {row.seed}: {row.failed}" for row in rows)
        raise TrainingError(
            f"no seed learned anything:\n{told}\nTrain longer (training.epochs), with another "
            "training.learning_rate, or look at "
            "the data with `warmstart check`"
        )
    failed = f"; {len(rows) - len(sound)} of {len(rows)} failed and cannot be kept" if len(sound) < len(rows) else ""
    if how != "best" and len(sound) > 1:
        what = "the mean of the weights" if how == "average" else "the mean of the answers"
        return Kept(how, tuple(sound), f"{what} of {len(sound)} seeds{failed}")
    dev = [row for row in sound if row.part == "test" and row.metrics.get("dev", {}).get(row.headline) is not None]
    if len(dev) == len(sound) > 1:
        best = max(dev, key=lambda row: float(row.metrics["dev"][row.headline]))
        return Kept("best", (best,), f"seed {best.seed} is the best on the dev rows{failed}")
    why = "the only one" if len(sound) == 1 else "the first: there are no dev rows to choose by, and test rows may not"
    return Kept("one", (sound[0],), f"seed {sound[0].seed}, {why}{failed}")


def put_together(kept: Kept, recipe: Recipe, folder: Path, parts: Parts, progress: Progress) -> dict[str, Any]:
    """Publish the kept model and its predictions into a run's folder; gives its metrics.

    A model that is there is whole; the runs that it was made from may be gone by then.
    """
    recover(folder / "model")
    sources = [row.folder / "model" for row in kept.rows]
    if (folder / "model").exists():
        _check_same(kept, folder / "model")
    else:
        with publish(folder / "model", kept.about()) as staging:
            if kept.how == "ensemble":
                for number, source in enumerate(sources):
                    take(source, staging / MEMBERS / str(number))
                shutil.copyfile(sources[0] / FILE, staging / FILE)
            else:
                _take(sources[0], staging, ("*",))
                (staging / MANIFEST).unlink()
            if kept.how == "average":
                _average(sources, staging)
    _take(kept.rows[0].folder, folder, ("stages/*", "data.json", "environment.json"))
    if len(kept.rows) == 1:
        _take(kept.rows[0].folder, folder, PREDICTIONS.values())
        return kept.rows[0].metrics
    _tune(recipe, folder, parts, progress)
    return measure(folder, parts, progress)


def _check_same(kept: Kept, model: Path) -> None:
    """Refuse a model that was kept for another choice, before a kill: the runs it was made from may be gone."""
    found = verify(model).get("kept")
    if found != kept.about()["kept"]:
        raise RunError(
            f"{model}: found what was kept as {found}, expected {kept.about()['kept']}; "
            "give the recipe it was begun with, or choose another folder with --out"
        )


def _tune(recipe: Recipe, folder: Path, parts: Parts, progress: Progress) -> None:
    """Choose on dev rows once more what the task chooses there: several models need not agree with the first."""
    predictor = Predictor.load(folder)
    if not predictor.task.tunes or "dev" not in parts.tables:
        return
    predictor.task = fit_task(recipe, parts)
    task = predictor.task.tune(*answers(predictor, parts.tables["dev"], progress))
    with republish(folder / "model") as staging:
        (staging / FILE).unlink()
        save_task(task, predictor.window, staging)


def _average(sources: Sequence[Path], staging: Path) -> None:
    """Put the mean of the weights in the place of the first model's.

    The mean of fine-tuned models with one start can be as good as an ensemble, at the price of one (Wortsman et al.
    2022, "Model soups").
    """
    from safetensors.torch import load_file, save_file

    for path in sorted(staging.rglob("*.safetensors")):
        name = path.relative_to(staging)
        first, *others = (load_file(source / name) for source in sources)
        mean = {}
        for key, value in first.items():
            every = [value, *(other[key] for other in others)]
            if value.is_floating_point():
                mean[key] = sum(one.double() for one in every).div(len(every)).to(value.dtype)
            elif all(value.equal(one) for one in every):
                mean[key] = value
            else:
                raise TrainingError(f"{path.name}: {key} holds whole numbers that differ by seed; say keep: best")
        path.unlink()  # a second name of the first model's own file
        save_file(mean, path, metadata={"format": "pt"})


def _take(source: Path, folder: Path, names: Iterable[str]) -> None:
    """Files and folders of a folder, in another one's place."""
    for path in (path for name in names for path in sorted(source.glob(name))):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        take(path, target)
