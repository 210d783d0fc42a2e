"""`model: auto`: the best of several encoders by their linear probes, or the fastest of those that are not told apart.

The choice is published in the run's folder before anything is trained, and read from there when the run resumes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from warmstart import tasks
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.records.encoder_choice import (
    FOLDER,
    EncoderChoice,
    EncoderScore,
    publish_choice,
    read_choice,
)
from warmstart.evaluation.records.format_version import write_format_version
from warmstart.experiments.scout import scout
from warmstart.pipeline.claim import check_free
from warmstart.recipe import Recipe, absolute, flat
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import disk_errors, remove_stale_staging

SCOUTS = ".scouts"
"""The folder of the linear probes in the run's, until one of the encoders is chosen."""

SAME_SPEED = 0.8
"""Speeds count as the same if one is at least this share of the other: that much they vary from trial to trial."""


def choose_encoder(recipe: Recipe, folder: str | Path, progress: Progress) -> Recipe:
    """The recipe with one of its `models` as its model; the same recipe where it names its model."""
    if not recipe.models:
        return recipe
    folder, recipe = Path(folder), absolute(recipe)
    check_free(folder)
    _check(recipe)
    with disk_errors(folder):
        choice = read_choice(folder) or _choose(recipe, folder, progress)
        shutil.rmtree(folder / SCOUTS, ignore_errors=True)
    before = sorted(score.model for score in choice.scores)
    if before != sorted(recipe.models):
        raise RunError(
            f"{folder / FOLDER}: found a choice of {', '.join(before)}, but models are {', '.join(recipe.models)}; "
            "restore them, or choose another --out"
        )
    progress.log(f"model: {choice.sentence}")
    return recipe.model_copy(update={"model": choice.model, "models": []})


def best_encoder(scores: Sequence[EncoderScore]) -> tuple[EncoderScore, str]:
    """The encoder to take, and why: the best; of those not told apart from it, the fastest; of those, the smallest.

    Args:
        scores: The best first.
    """
    best = scores[0]
    if best.value is None:
        raise RecipeError("model: found auto, but labels have too few rows for a cross-validation; name one encoder")
    close = [one for one in scores if _is_close(one, best)]
    fast = SAME_SPEED * max(one.texts_per_second for one in close)
    chosen = min((one for one in close if one.texts_per_second >= fast), key=lambda one: one.megabytes)
    if len(close) == 1:
        return chosen, f"its {best.metric} is the best, {best.score} by a linear probe"
    among = f"of the {len(close)} that are within each other's interval"
    alone = chosen.texts_per_second * SAME_SPEED > max(one.texts_per_second for one in close if one is not chosen)
    why = f"it is the fastest {among}" if alone else f"it is the smallest of the fastest {among}"
    if chosen is best:
        return chosen, f"its {best.metric} is the best, {best.score} by a linear probe, and {why}"
    return chosen, f"{why}: {_described(chosen)}, against {_described(best)} of {best.name}, by linear probes"


def _described(one: EncoderScore) -> str:
    return f"{one.metric} {one.score} at {one.texts_per_second:,.0f} texts/s and {one.megabytes:,.0f} MB"


def _is_close(one: EncoderScore, best: EncoderScore) -> bool:
    """Whether each of two scores is within the interval of the other."""
    if one.value is None or best.value is None:
        return False
    return abs(one.value - best.value) <= min(one.half_width or 0.0, best.half_width or 0.0)


def _check(recipe: Recipe) -> None:
    if not hasattr(tasks.find(recipe.task.name), "probe_kind"):
        raise RecipeError(
            f"model: found auto, but {recipe.task.name} has no linear probe to choose by; name one encoder"
        )
    if processes.world_size() > 1:
        raise RecipeError(
            "model: found auto, which one process chooses; start a single process, or name the encoder that "
            "`warmstart scout` shows to be best"
        )


def _choose(recipe: Recipe, folder: Path, progress: Progress) -> EncoderChoice:
    """Solve a linear probe on each encoder, choose by them, and publish the choice."""
    shared = flat(recipe.model_dump(mode="json", include={"task", "data", "window", "seed"}))
    try:
        results = scout(shared, recipe.models, folder / SCOUTS, progress)
    except BaseException:
        for empty in (folder / SCOUTS, folder):
            with suppress(OSError):  # an encoder is finished, and is read when the run is started again
                empty.rmdir()
        raise
    scores = [one.without_run() for one in results]
    chosen, reason = best_encoder(scores)
    choice = EncoderChoice(chosen.model, reason, scores)
    remove_stale_staging(folder)
    write_format_version(folder)
    publish_choice(choice, folder)
    return choice
