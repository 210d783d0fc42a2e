"""Evidence: a recipe carried out over seeds, beside its baselines, and what may be said of it, in one run folder."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.baselines import tfidf
from warmstart.errors import DataError, ModelError, RecipeError, RunError
from warmstart.evaluation.comparison import Comparison, Summary, compare, compare_all, number, summarise
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import Row
from warmstart.evaluation.statistics import holm, over_rows
from warmstart.experiments.repeat import PAUSE, make_variants, repeat, run_folder, strip
from warmstart.experiments.selection import Kept, choose, put_together
from warmstart.experiments.variants import ASKED, check, references, variants_of
from warmstart.pipeline.prepare import read_rows
from warmstart.pipeline.run_recipe import claim
from warmstart.recipe import Recipe, absolute
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import disk_errors, write_json, write_text
from warmstart.storage.cache import cache_folder
from warmstart.storage.locks import claimed

VARIANTS = "variants"
"""The folder of all runs, by variant and seed, in the run that sums them up."""


def gather(
    recipe: Recipe, folder: str | Path, progress: Progress = silent, resume_anyway: Iterable[str] = ()
) -> RunFolder:
    """Carry out a recipe with every seed and beside every baseline it asks for, and keep one model as the run's.

    After a kill the same call goes on. Several processes may make it at once and share the trainings between them.
    """
    folder = Path(folder)
    claim(folder)
    if (folder / "recipe.yaml").is_file() and not RunFolder(folder).recipe.repeated:
        raise RunError(f"{folder} holds a stopped run of one training; choose another with --out, or remove it")
    check(recipe)
    if processes.count() > 1:
        raise RecipeError(
            "seeds: found several processes of one training, and each seed is a training of its own; start plain "
            "processes with the same command, which share the seeds between them"
        )
    variants = variants_of(recipe)
    seeds = range(recipe.seed, recipe.seed + (recipe.seeds or 1))
    make_variants(recipe, variants)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "recipe.yaml", absolute(recipe).yaml())
        try:
            place = folder / VARIANTS
            rows = repeat(recipe, variants, seeds, place, progress, keep=[ASKED], resume_anyway=resume_anyway)
        except (DataError, ModelError, RecipeError):
            if not any(folder.glob(f"{VARIANTS}/*/*/recipe.yaml")):
                shutil.rmtree(folder)
            raise
        _finish(recipe, folder, rows, progress)
    return RunFolder(folder)


def _finish(recipe: Recipe, folder: Path, rows: Sequence[Row], progress: Progress) -> None:
    """Keep what is to be kept and sum up, once, whichever process comes first."""
    while not RunFolder(folder).finished:
        with claimed(folder / ".keep.lock") as mine:
            if mine and not RunFolder(folder).finished:
                _keep(recipe, folder, rows, progress)
        if not mine:
            time.sleep(PAUSE)


def _keep(recipe: Recipe, folder: Path, rows: Sequence[Row], progress: Progress) -> None:
    """Publish the kept model and the evidence; metrics come last, since they say that a run is finished."""
    asked = [row for row in rows if row.variant == ASKED]
    kept = choose(asked, recipe.select)
    first = make_variants(recipe, variants_of(recipe), recipe.seed)[ASKED]
    parts = read_rows(first, cache_folder(), silent)
    if recipe.task.name == "classify":
        counted = run_folder(folder / VARIANTS, tfidf.NAME, recipe.seed)
        if not (counted / "metrics.json").is_file():
            progress.say("TF-IDF and logistic regression")
            tfidf.fit_tfidf(first, parts, counted)
        rows = [*rows, *(tfidf.read_tfidf(counted, row.seed) for row in asked)]
    metrics = put_together(kept, first, folder, parts, progress)
    write_json(folder / "evidence.json", sum_up(rows, kept, metrics, folder))
    for row in asked:
        strip(row.folder)
    write_json(folder / "metrics.json", metrics)


def sum_up(rows: Sequence[Row], kept: Kept, metrics: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What `evidence.json` holds: the kept model, every variant over its seeds, and each difference that was asked."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.variant, []).append(row)
    found = compare_all(rows, references(by_name))
    if tfidf.NAME in by_name:
        found = _with_tfidf(rows, found, by_name)
    summaries = {name: summarise(some) for name, some in by_name.items()}
    first = kept.rows[0]
    value = metrics[first.part][first.headline]
    own = replace(first, folder=folder, metrics=dict(metrics), value=math.nan if value is None else float(value))
    over = over_rows(own.scores)
    return {
        "headline": first.headline,
        "part": first.part,
        "verdict": verdict(summaries, found),
        "rows": {"mean": over.mean, "low": number(over.low), "high": number(over.high), "count": over.count},
        "kept": {"how": kept.how, "why": _why(kept, own), "seed": kept.seed, "value": number(own.value)},
        "variants": [_told(summaries[name], some) for name, some in by_name.items()],
        "comparisons": [one.as_json() for one in found],
    }


def verdict(summaries: Mapping[str, Summary], found: Sequence[Comparison]) -> str:
    """What the evidence comes to, in a sentence; that counted words do as well comes first."""
    asked, parts = summaries[ASKED], []
    counted = next((one for one in found if one.variant == tfidf.NAME), None)
    if counted is not None and not (counted.shown and counted.difference < 0):
        how = "is below" if counted.difference > 0 else "is not shown to be above"
        parts.append(
            f"The encoder {how} TF-IDF with logistic regression: {asked.headline} {asked.all.mean:.4f} beside "
            f"{summaries[tfidf.NAME].all.mean:.4f}"
        )
    parts += [asked.sentence(), *(one.sentence() for one in found if one.variant == ASKED)]
    return "; ".join(parts)


def _with_tfidf(rows: Sequence[Row], found: Sequence[Comparison], by_name: Mapping[str, Any]) -> list[Comparison]:
    """The comparisons with that of TF-IDF among them, all corrected for being so many.

    It has no seeds. Beside one training it is compared model with model, where test rows alone can speak.
    """
    one = compare(by_name[tfidf.NAME], by_name[ASKED], models=True)
    every = [*found, one]
    corrected = holm([one.p for one in every])
    return [replace(one, corrected=p) for one, p in zip(every, corrected, strict=True)]


def _why(kept: Kept, own: Row) -> str:
    """Why it is kept; of what is made of several models, whether that helped."""
    if len(kept.rows) == 1:
        return kept.why
    mean = sum(row.value for row in kept.rows) / len(kept.rows)
    where = "above" if own.value > mean else "below" if own.value < mean else "the same as"
    return f"{kept.why}; its {own.headline}, {own.value:.4f}, is {where} the mean of its members, {mean:.4f}"


def _told(one: Summary, rows: Sequence[Row]) -> dict[str, Any]:
    values = [row.value for row in rows if row.value == row.value]
    if one.variant == tfidf.NAME:  # the same number with any seed
        rows, values = rows[:1], values[:1]
        one = summarise(rows)
    return {
        "variant": one.variant,
        "mean": number(one.all.mean),
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "low": number(one.all.low),
        "high": number(one.all.high),
        "seeds": [row.seed for row in rows],
        "values": [number(row.value) for row in rows],
        "failed": {str(seed): why for seed, why in one.failed.items()},
        "without_failed": number(one.sound.mean),
        "seconds": one.seconds,
    }
