"""Reusing a fine-tuning that another run has finished, on the same stages, rows and settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import ModelError, RunError
from warmstart.evaluation.records import metrics
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.records.search_baseline import BASELINE_FOLDER, FUSION_FOLDER
from warmstart.pipeline.earlier_stages import EarlierStage, finetuning_identity
from warmstart.pipeline.prepare import Parts
from warmstart.pipeline.stage_store import stage_folder
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import verify
from warmstart.storage.files import link_or_copy
from warmstart.storage.folders import discard, make_folder
from warmstart.tasks.shared.saved_task import SavedTask

REUSED = ("stages/*-finetune", BASELINE_FOLDER, FUSION_FOLDER, "predictions*.parquet", "model")
"""What is taken from a run, before its metrics, which mark a run as finished."""


@dataclass(frozen=True)
class FinetuningNote:
    """Where the result of a fine-tuning is."""

    run: str


def register_finetuning(recipe: Recipe, parts: Parts, last: EarlierStage, folder: Path, cache: Path) -> None:
    """Note where the result of this fine-tuning is, for runs that would do the same."""
    write_record(FinetuningNote(str(folder.resolve())), _note(recipe, parts, last, cache))


def find_finetuning(recipe: Recipe, parts: Parts, last: EarlierStage, cache: Path) -> Path | None:
    """The finished run that has done the same, if it is still there and undamaged."""
    try:
        folder = Path(read_record(FinetuningNote, _note(recipe, parts, last, cache)).run)
        verify(folder / "model")
        if SavedTask.read(folder / "model").temperature != 1.0:
            return None  # calibrated since: no longer the result of the fine-tuning
    except (FileNotFoundError, RunError, ModelError):
        return None
    return folder if (folder / metrics.FILE).is_file() else None


def reuse_finetuning(done: Path, folder: Path, progress: Progress) -> None:
    """Link or copy the result of another run into this one's folder."""
    if done != folder.resolve():
        for source in (path for name in REUSED for path in sorted(done.glob(name))):
            target = folder / source.relative_to(done)
            make_folder(target.parent)
            link_or_copy(source, target)
        discard(folder / "checkpoints")  # of a training of its own that was stopped
        metrics.finish_run(metrics.read_metrics(done / metrics.FILE), folder)
    progress.log(f"the fine-tuning is finished ({done.name}); reused")


def _note(recipe: Recipe, parts: Parts, last: EarlierStage, cache: Path) -> Path:
    folder = stage_folder(cache / "stages", "finetune", finetuning_identity(recipe, parts, last))
    make_folder(folder.parent)
    return folder.with_name(f".{folder.name}.run")
