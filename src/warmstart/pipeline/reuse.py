"""A fine-tuning that another run has finished, on the same stages, rows and settings: taken instead of done again."""

from __future__ import annotations

from pathlib import Path

from warmstart.errors import ModelError, RunError
from warmstart.pipeline import stage_store as store
from warmstart.pipeline.earlier_stages import Stage, key_of
from warmstart.pipeline.prepare import Parts
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage import artifacts
from warmstart.storage.artifacts import verify, write_json
from warmstart.storage.json_files import read_object
from warmstart.tasks.shared.task_config import saved_temperature

TAKEN = ("stages/*-finetune", "predictions*.parquet", "model", "metrics.json")
"""What of a run is taken; metrics come last, since they say that a run is finished."""


def offer(recipe: Recipe, parts: Parts, last: Stage, folder: Path, cache: Path) -> None:
    """Say where the result of this fine-tuning is, for runs that would do the same."""
    write_json(_note(recipe, parts, last, cache), {"run": str(folder.resolve())})


def find(recipe: Recipe, parts: Parts, last: Stage, cache: Path) -> Path | None:
    """The finished run that has done the same, if it is still there and whole."""
    try:
        folder = Path(str(read_object(_note(recipe, parts, last, cache), RunError)["run"]))
        verify(folder / "model")
        if saved_temperature(folder / "model") != 1.0:
            return None  # calibrated since: no longer what the fine-tuning gave
    except (OSError, KeyError, RunError, ModelError):
        return None
    return folder if (folder / "metrics.json").is_file() else None


def take(done: Path, folder: Path, progress: Progress) -> None:
    """Put what another run has made into this one's folder; shared on disk where possible, as nothing changes it."""
    if done != folder.resolve():
        for source in (path for name in TAKEN for path in sorted(done.glob(name))):
            artifacts.take(source, folder / source.relative_to(done))
    progress.say(f"the fine-tuning is finished ({done.name}); used as it stands")


def _note(recipe: Recipe, parts: Parts, last: Stage, cache: Path) -> Path:
    place = store.place(cache / "stages", "finetune", key_of(recipe, parts, last))
    place.parent.mkdir(parents=True, exist_ok=True)
    return place.with_name(f".{place.name}.run")
