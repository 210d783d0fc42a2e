"""Selecting one model from several seeds: the best one, the mean of their weights, or all of them as an ensemble."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import RunError, TrainingError
from warmstart.evaluation.evaluate import predict_rows
from warmstart.evaluation.predictions import PREDICTION_FILES
from warmstart.evaluation.records import data
from warmstart.evaluation.records.metrics import Metrics
from warmstart.evaluation.records.search_baseline import BASELINE_FOLDER, FUSION_FOLDER
from warmstart.evaluation.run import ENVIRONMENT
from warmstart.evaluation.run_result import RunResult
from warmstart.inference.ensembles import MEMBERS
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.prepare import Parts, fit_task
from warmstart.pipeline.run_recipe import measure_run
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import MANIFEST, publish, recover, republish, verify
from warmstart.storage.files import link_or_copy
from warmstart.storage.folders import make_folder
from warmstart.tasks.shared.protocols import TunesOnDev
from warmstart.tasks.shared.saved_task import FILE, SavedTask


@dataclass(frozen=True)
class Selection:
    """Which runs' models are selected, how, and why."""

    how: str
    """`best`, `average` or `ensemble`; `first` where nothing could choose."""
    results: tuple[RunResult, ...]
    why: str

    @property
    def seed(self) -> int | None:
        """The seed of the selected model; None where it is made of several."""
        return self.results[0].seed if len(self.results) == 1 else None

    def manifest(self) -> dict[str, object]:
        """What the manifest of the selected model says about its origin."""
        return {"selected": {"how": self.how, "seeds": [result.seed for result in self.results]}}


def select(results: Sequence[RunResult], how: str) -> Selection:
    """Select from one variant's runs; those that failed never are.

    Only dev rows may choose between seeds: the score of the seed that is best on the test rows is too good to be true.
    """
    sound = [result for result in results if not result.failed]
    if not sound:
        reasons = "\n".join(f"  seed {result.seed}: {result.failed}" for result in results)
        raise TrainingError(
            f"no seed learned anything:\n{reasons}\nTrain longer (training.epochs), with another "
            "training.learning_rate, or check the data with `warmstart check`"
        )
    lost = len(results) - len(sound)
    failed = f"; {lost} of {len(results)} failed and cannot be selected" if lost else ""
    if how != "best" and len(sound) > 1:
        what = "the mean of the weights" if how == "average" else "the mean of the answers"
        of = "models, forward and backward" if len({result.variant for result in sound}) > 1 else "seeds"
        return Selection(how, tuple(sound), f"{what} of {len(sound)} {of}{failed}")
    on_dev = {result.seed: value for result in sound if (value := _dev_value(result)) is not None}
    if len(on_dev) == len(sound) > 1:
        best = max(sound, key=lambda result: on_dev[result.seed])
        return Selection("best", (best,), f"seed {best.seed} is the best on the dev rows{failed}")
    why = "the only one" if len(sound) == 1 else "the first: there are no dev rows to choose by, and test rows may not"
    return Selection("first", (sound[0],), f"seed {sound[0].seed}, {why}{failed}")


def _dev_value(result: RunResult) -> float | None:
    """The headline on the dev rows of a run that was measured on test rows as well."""
    return result.metrics.get("dev", {}).get(result.headline) if result.part == "test" else None


def publish_selection(selection: Selection, recipe: Recipe, folder: Path, parts: Parts, progress: Progress) -> Metrics:
    """Publish the selected model and its predictions into a run's folder; gives its metrics.

    A model that is there already is complete, and the runs that it was made from may be gone.
    """
    recover(folder / "model")
    sources = [result.folder / "model" for result in selection.results]
    if (folder / "model").exists():
        _check_same(selection, folder / "model")
    else:
        with publish(folder / "model", selection.manifest()) as staging:
            if selection.how == "ensemble":
                _check_tokenizers(sources)
                for number, source in enumerate(sources):
                    link_or_copy(source, staging / MEMBERS / str(number))
                shutil.copyfile(sources[0] / FILE, staging / FILE)
            else:
                _take(sources[0], staging, ("*",))
                (staging / MANIFEST).unlink()
            if selection.how == "average":
                _average(sources, staging)
    first = selection.results[0]
    _take(first.folder, folder, ("stages/*", BASELINE_FOLDER, FUSION_FOLDER, data.FILE, ENVIRONMENT))
    if len(selection.results) == 1:
        _take(first.folder, folder, PREDICTION_FILES.values())
        return first.metrics
    _tune(recipe, folder, parts, progress)
    return measure_run(folder, parts, progress)


def _check_tokenizers(sources: Sequence[Path]) -> None:
    """Refuse members with different tokenizers, of which an ensemble has one."""
    files = [sorted(source.glob("tokenizer.json")) for source in sources]
    if len({path.read_bytes() for paths in files for path in paths}) > 1:
        raise RunError(
            f"{sources[-1]}: its tokenizer is not that of {sources[0]}, so the two cannot answer as one; remove the "
            "run's folder and train again"
        )


def _check_same(selection: Selection, model: Path) -> None:
    """Refuse a model of another selection, from before a kill: the runs it was made from may be gone."""
    there, here = verify(model).get("selected"), selection.manifest()["selected"]
    if there != here:
        raise RunError(
            f"{model}: found a model selected as {there}, expected {here}; "
            "give the recipe that the run was started with, or choose another folder with --out"
        )


def _tune(recipe: Recipe, folder: Path, parts: Parts, progress: Progress) -> None:
    """Tune the task on dev rows once more: what is best for the first model need not be so for several."""
    predictor = Predictor.load(folder)
    if not isinstance(predictor.task, TunesOnDev) or "dev" not in parts.tables:
        return
    task = predictor.task = fit_task(recipe, parts)
    if not isinstance(task, TunesOnDev) or not task.tunes_on_dev:
        return
    task = task.tune(*predict_rows(predictor, parts.tables["dev"], progress))
    with republish(folder / "model") as staging:
        (staging / FILE).unlink()
        SavedTask.of(task, predictor.window).write(staging)


def _average(sources: Sequence[Path], staging: Path) -> None:
    """Replace the first model's weights by the mean of all.

    The mean of models that were fine-tuned from the same start can be as good as an ensemble, at the cost of one
    (Wortsman et al. 2022, "Model soups").
    """
    from safetensors.torch import load_file, save_file

    for path in sorted(staging.rglob("*.safetensors")):
        name = path.relative_to(staging)
        first, *others = (load_file(source / name) for source in sources)
        mean = {}
        for key, value in first.items():
            every = [value, *(other[key] for other in others)]
            if value.is_floating_point():
                mean[key] = sum(tensor.double() for tensor in every).div(len(every)).to(value.dtype)
            elif all(value.equal(tensor) for tensor in every):
                mean[key] = value
            else:
                raise TrainingError(f"{path.name}: {key} holds integers that differ by seed; set select: best")
        path.unlink()  # a second name of the first model's own file
        save_file(mean, path, metadata={"format": "pt"})


def _take(source: Path, folder: Path, names: Iterable[str]) -> None:
    """Link or copy files and folders of a folder to the same names in another."""
    for path in (path for name in names for path in sorted(source.glob(name))):
        target = folder / path.relative_to(source)
        make_folder(target.parent)
        link_or_copy(path, target)
