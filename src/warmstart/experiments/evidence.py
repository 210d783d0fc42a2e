"""Evidence: a recipe trained over seeds and compared with its baselines, summed up in one run folder."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from warmstart import tasks
from warmstart.baselines import tfidf
from warmstart.errors import DataError, ModelError, RecipeError, RunError
from warmstart.evaluation.comparison import Comparison, VariantSummary, compare, compare_all, correct, finite, summarize
from warmstart.evaluation.records import evidence as evidence_record
from warmstart.evaluation.records import metrics as metrics_record
from warmstart.evaluation.records.evidence import EvidenceRecord, RowMean, SelectedRecord, VariantRecord
from warmstart.evaluation.records.files import write_record
from warmstart.evaluation.records.metrics import Metrics, finish_run
from warmstart.evaluation.run import RECIPE, RunFolder, begin_run
from warmstart.evaluation.run_result import RunResult
from warmstart.evaluation.statistics import over_rows
from warmstart.experiments.repeat import PAUSE, make_variants, remove_weights, repeat, run_folder
from warmstart.experiments.selection import Selection, publish_selection, select
from warmstart.experiments.variants import (
    BACKWARD,
    OWN,
    check_repeatable,
    references,
    selected_by,
    variants_of,
)
from warmstart.pipeline.claim import check_free
from warmstart.pipeline.prepare import read_rows
from warmstart.recipe import Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import disk_errors
from warmstart.storage.cache import cache_folder
from warmstart.storage.locks import try_lock
from warmstart.tasks.shared.text_classification import TextClassification

VARIANTS = "variants"
"""The folder of all runs, by variant and seed, in the run that sums them up."""


def run_repeated(
    recipe: Recipe, folder: str | Path, progress: Progress = silent, resume_anyway: Iterable[str] = ()
) -> RunFolder:
    """Train a recipe with every seed and every baseline it asks for, and select one model as the run's.

    After a kill the same call resumes. Several processes may make it at once and share the trainings between them.
    """
    folder = Path(folder)
    check_free(folder)
    if (folder / RECIPE).is_file() and not RunFolder(folder).recipe.repeated:
        raise RunError(f"{folder} holds a stopped run of one training; choose another with --out, or remove it")
    check_repeatable(recipe)
    if processes.world_size() > 1:
        raise RecipeError(
            "seeds: found several processes of one training, and each seed is a training of its own; start plain "
            "processes with the same command, which share the seeds between them"
        )
    variants = variants_of(recipe)
    seeds = range(recipe.seed, recipe.seed + (recipe.seeds or 1))
    make_variants(recipe, variants)
    with disk_errors(folder):
        begin_run(folder, recipe)
        try:
            runs = folder / VARIANTS
            kept = [OWN, BACKWARD]
            results = repeat(recipe, variants, seeds, runs, progress, keep=kept, resume_anyway=resume_anyway)
        except (DataError, ModelError, RecipeError):
            if not any(folder.glob(f"{VARIANTS}/*/*/{RECIPE}")):
                shutil.rmtree(folder)
            raise
        _finish(recipe, folder, results, progress)
    return RunFolder(folder)


def _finish(recipe: Recipe, folder: Path, results: Sequence[RunResult], progress: Progress) -> None:
    """Select a model and sum up, once, whichever process comes first."""
    while not RunFolder(folder).finished:
        with try_lock(folder / ".keep.lock") as mine:
            if mine and not RunFolder(folder).finished:
                _publish(recipe, folder, results, progress)
        if not mine:
            time.sleep(PAUSE)


def _publish(recipe: Recipe, folder: Path, results: Sequence[RunResult], progress: Progress) -> None:
    """Publish the selected model and the evidence; metrics come last, since they mark a run as finished."""
    own = [result for result in results if result.variant in {OWN, BACKWARD}]
    selection = select(own, selected_by(recipe))
    first = make_variants(recipe, variants_of(recipe), recipe.seed)[OWN]
    parts = read_rows(first, cache_folder(), silent)
    if issubclass(tasks.find(recipe.task.name), TextClassification):
        baseline = run_folder(folder / VARIANTS, tfidf.NAME, recipe.seed)
        if not (baseline / metrics_record.FILE).is_file():
            progress.log("TF-IDF and logistic regression")
            tfidf.fit_tfidf(first, parts, baseline)
        seeds = dict.fromkeys(result.seed for result in own)
        results = [*results, *(tfidf.read_tfidf(baseline, seed, recipe.task) for seed in seeds)]
    metrics = publish_selection(selection, first, folder, parts, progress)
    write_record(make_evidence(results, selection, metrics, folder), folder / evidence_record.FILE)
    for result in own:
        remove_weights(result.folder)
    finish_run(metrics, folder)


def make_evidence(results: Sequence[RunResult], selection: Selection, metrics: Metrics, folder: Path) -> EvidenceRecord:
    """The selected model, every variant over its seeds, and each variant's difference to its reference."""
    by_name: dict[str, list[RunResult]] = {}
    for result in results:
        by_name.setdefault(result.variant, []).append(result)
    comparisons = compare_all(results, references(by_name))
    if tfidf.NAME in by_name:
        # It has no seeds. With one training it is compared model with model, where test rows alone can decide.
        comparisons = correct([*comparisons, compare(by_name[tfidf.NAME], by_name[OWN], models=True)])
    summaries = {name: summarize(runs) for name, runs in by_name.items()}
    first = selection.results[0]
    value = metrics[first.part][first.headline]
    selected = replace(first, folder=folder, metrics=metrics, value=math.nan if value is None else float(value))
    over = over_rows(selected.scores)
    return EvidenceRecord(
        headline=first.headline,
        part=first.part,
        verdict=verdict(summaries, comparisons),
        rows=RowMean(over.mean, finite(over.low), finite(over.high), over.count),
        selected=SelectedRecord(selection.how, _why(selection, selected), selection.seed, finite(selected.value)),
        variants=[_variant(summaries[name], runs) for name, runs in by_name.items()],
        comparisons=[comparison.record() for comparison in comparisons],
    )


def verdict(summaries: Mapping[str, VariantSummary], comparisons: Sequence[Comparison]) -> str:
    """What the evidence comes to, in a sentence; that TF-IDF does as well comes first."""
    own, parts = summaries[OWN], []
    baseline = next((comparison for comparison in comparisons if comparison.variant == tfidf.NAME), None)
    if baseline is not None and not (baseline.significant and baseline.difference < 0):
        how = "is below" if baseline.difference > 0 else "is not shown to be above"
        parts.append(
            f"The encoder {how} TF-IDF with logistic regression: {own.headline} {own.all.mean:.4f} against "
            f"{summaries[tfidf.NAME].all.mean:.4f}"
        )
    parts += [own.sentence(), *(comparison.sentence() for comparison in comparisons if comparison.variant == OWN)]
    return "; ".join(parts)


def _why(selection: Selection, selected: RunResult) -> str:
    """Why it was selected; of a model made of several, whether that helped."""
    if len(selection.results) == 1:
        return selection.why
    mean = sum(result.value for result in selection.results) / len(selection.results)
    where = "above" if selected.value > mean else "below" if selected.value < mean else "the same as"
    score = f"its {selected.headline}, {selected.value:.4f}"
    return f"{selection.why}; {score}, is {where} the mean of its members, {mean:.4f}"


def _variant(summary: VariantSummary, results: Sequence[RunResult]) -> VariantRecord:
    values = [result.value for result in results if result.value == result.value]
    if summary.variant == tfidf.NAME:  # the same number with any seed
        results, values = results[:1], values[:1]
        summary = summarize(results)
    return VariantRecord(
        variant=summary.variant,
        mean=finite(summary.all.mean),
        sd=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        low=finite(summary.all.low),
        high=finite(summary.all.high),
        seeds=[result.seed for result in results],
        values=[finite(result.value) for result in results],
        failed={str(seed): why for seed, why in summary.failed.items()},
        without_failed=finite(summary.sound.mean),
        seconds=summary.seconds,
    )
