"""Carrying out a recipe: its stages in order, into a run folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.evaluate import evaluate
from warmstart.evaluation.run import PREDICTIONS, RunFolder
from warmstart.inference.predictor import Predictor
from warmstart.models.scratch import make_encoder
from warmstart.pipeline import reuse
from warmstart.pipeline import stage_store as store
from warmstart.pipeline.earlier_stages import Stage, from_the_start, stages_before
from warmstart.pipeline.finetune import check_ahead, finetune, make_ready, saving_of
from warmstart.pipeline.forgetting_monitor import FILE as FORGETTING
from warmstart.pipeline.multitask import multitask
from warmstart.pipeline.prepare import Parts, Rows, read_rows
from warmstart.recipe import Recipe, absolute
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import disk_errors, publish, sweep, write_json, write_text
from warmstart.storage.cache import cache_folder
from warmstart.training.callbacks.early_stopping import Measured
from warmstart.training.settings import check_trainer_options


def run_recipe(
    recipe: Recipe,
    folder: str | Path,
    progress: Progress = silent,
    rows: Rows | None = None,
    resume_anyway: Iterable[str] = (),
    measured: Measured | None = None,
) -> RunFolder:
    """Carry out a recipe into a folder, or go on with a run that was stopped there.

    Where recipe, data or model is at fault, no folder is left. Of several processes only the main one reads the files,
    writes the folder and measures; the others train with it.

    Args:
        rows: Rows handed over in Python, which take the place of the recipe's files.
        resume_anyway: What may differ from when the run was stopped, though the model may then differ too.
        measured: Told the headline on the dev rows after every epoch of the fine-tuning but the last; what it raises
            ends the run, which stays unfinished.
    """
    folder = Path(folder)
    if recipe.repeated:
        raise RecipeError("seeds, baseline and ablate ask for several trainings, and this is one; take `warmstart.fit`")
    claim(folder)
    check_trainer_options(recipe.trainer)
    main = processes.is_main()
    progress = progress if main else silent
    with disk_errors(folder), _work_folder(folder) as work:
        place = cache_folder() if rows is None else work / f"rows-{processes.index()}"
        with processes.main_first():
            parts = read_rows(recipe, place, progress, rows)
            stages = stages_before(recipe, parts, cache_folder(), progress)
            if stages:
                check_ahead(recipe, parts)
        start = _go_before(recipe, stages, progress, resume_anyway)
        with processes.main_first():
            done = reuse.find(start, parts, stages[-1], cache_folder()) if stages and recipe.reuse_stages else None
            if done is not None:
                if main:
                    _begin(folder, recipe, parts, stages)
                    reuse.take(done, folder, progress)
                return RunFolder(folder)
            ready = make_ready(start, parts, work, progress, len(stages) + 1, cache_folder())
            saving = saving_of(recipe, ready, folder, resume_anyway)
            if main:
                _begin(folder, recipe, parts, stages)
        finetune(ready, saving, folder, progress, measured)
        with processes.main_first():
            if main:
                write_json(folder / "metrics.json", measure(folder, parts, progress))
                if stages:
                    reuse.offer(start, parts, stages[-1], folder, cache_folder())
    return RunFolder(folder)


def plan_stages(recipe: Recipe, progress: Progress = silent) -> list[Stage]:
    """The stages of a recipe before its fine-tuning; reads its data and trains nothing."""
    return stages_before(recipe, read_rows(recipe, cache_folder(), progress), cache_folder(), progress)


def _go_before(recipe: Recipe, stages: list[Stage], progress: Progress, anyway: Iterable[str]) -> Recipe:
    """Carry out the stages that are not in the store yet; the recipe of the fine-tuning that starts where they end."""
    recipe = from_the_start(recipe, stages)
    for number, stage in enumerate(stages, 1):
        if stage.finished and recipe.reuse_stages:
            progress.say(f"{number:02d}-{stage.name} is finished ({stage.folder.name}); used as it stands")
            continue
        progress.say(f"{number:02d}-{stage.name} begins, or goes on ({stage.folder.name})")
        with store.held(stage.folder, stage.identity):
            if stage.finished and processes.is_main():  # and not to be used again
                shutil.rmtree(stage.folder)
            _run_stage(recipe, stage, progress, anyway)
    return recipe.alone(str(stages[-1].model) if stages else recipe.model)


def _run_stage(recipe: Recipe, stage: Stage, progress: Progress, anyway: Iterable[str]) -> None:
    if stage.options is not None:
        with disk_errors(stage.folder), _work_folder(stage.folder) as work:
            multitask(
                stage.together,
                stage.options,
                stage.folder,
                cache=cache_folder(),
                work=work,
                saves=recipe.checkpoints,
                trainer=recipe.trainer,
                progress=progress,
                resume_anyway=anyway,
                forgetting=recipe.forgetting,
            )
        return
    if stage.recipe is None:
        assert recipe.from_scratch is not None
        assert stage.texts is not None
        with processes.main_first():
            if processes.is_main():
                with publish(stage.folder) as staging:
                    make_encoder(stage.texts, staging / "model", seed=recipe.seed, **recipe.from_scratch.model_dump())
        return
    run_recipe(stage.recipe, stage.folder, progress, stage.rows, anyway)


def claim(folder: Path) -> None:
    """Refuse a folder that holds a finished run, or anything that is not a run; a stopped one goes on."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file, and a run is a folder; choose another place with --out")
    # A kill may leave hidden files that are no part of a run; they are swept away when it goes on.
    if not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir()):
        return
    if (folder / "metrics.json").is_file():
        raise RunError(f"{folder} holds a finished run; choose another with --out, or remove it")
    if not (folder / "recipe.yaml").is_file():
        raise RunError(f"{folder} holds files that are no run; choose another place with --out")


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """An empty folder for files not needed afterwards: inside the run, since /tmp may be memory."""
    work = folder / ".work"
    if not processes.is_main():  # it is the main one's, which goes first
        yield work
        return
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _begin(folder: Path, recipe: Recipe, parts: Parts, stages: Sequence[Stage]) -> None:
    """Write down what is asked, on what, with what; what a kill left half written goes."""
    for place in (folder, folder / "stages", folder / "checkpoints"):
        sweep(place)
    write_text(folder / "recipe.yaml", absolute(recipe).yaml())
    write_json(folder / "environment.json", environment())
    write_json(folder / "data.json", parts.about())
    for number, stage in enumerate(stages, 1):
        record = folder / "stages" / f"{number:02d}-{stage.name}"
        if not record.exists():
            with publish(record, {"identity": dict(stage.identity)}) as staging:
                write_json(staging / "stage.json", stage.told())
                if (stage.trained / FORGETTING).is_file():
                    shutil.copyfile(stage.trained / FORGETTING, staging / FORGETTING)


def measure(folder: Path, parts: Parts, progress: Progress) -> dict[str, Any]:
    """The model as it was saved, on every part but the training rows."""
    measured = [part for part in ("dev", "test") if part in parts.tables]
    if not measured:
        return {}
    predictor = Predictor.load(folder)
    return {part: evaluate(predictor, parts.tables[part], folder / PREDICTIONS[part], progress) for part in measured}
