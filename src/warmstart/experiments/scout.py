"""Which encoder? A linear probe on each of several: its score, how fast the encoder is, and how large."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.evaluate import predict_rows
from warmstart.evaluation.records.encoder_choice import EncoderScore
from warmstart.evaluation.run import RunFolder, finished_run
from warmstart.experiments.repeat import check_same_recipe
from warmstart.experiments.sweep_plots import new_figure, save_figure
from warmstart.inference.predictor import Predictor
from warmstart.models.security.tensors import bytes_of_weights
from warmstart.options import Value
from warmstart.pipeline.prepare import read_rows
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import Recipe, make_recipe
from warmstart.recipe.recipe import LINEAR_PROBE
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.cache import cache_folder

TIMED_ROWS = 256
"""Rows by which the speed of an encoder is measured."""


@dataclass(frozen=True)
class ScoutResult(EncoderScore):
    """The score of an encoder, and a run that has it."""

    run: str
    """The folder of a finished run, which predicts."""

    def without_run(self) -> EncoderScore:
        """The score alone."""
        return EncoderScore(**{field.name: getattr(self, field.name) for field in fields(EncoderScore)})


def scout(
    values: Mapping[str, Value], models: Sequence[str], folder: str | Path, progress: Progress = silent
) -> list[ScoutResult]:
    """Solve a linear head on each encoder, and compare; the best comes first.

    Args:
        values: Dotted keys and values of a recipe, without its model.
        folder: Where a run of each encoder is written; those that are there are read.
    """
    if len(set(models)) < len(models) or not models:
        raise RecipeError(f"--models: found {', '.join(models) or 'none'}; expected one or more, all different")
    results = []
    for number, model in enumerate(models):
        recipe = make_recipe({**values, **LINEAR_PROBE, "model": model}, "scout")
        path = Path(folder) / f"{number}-{re.sub(r'[^A-Za-z0-9.-]+', '-', Path(model).name)}"
        progress.log(model)
        run = finished_run(path)
        if run is None:
            run = run_recipe(recipe, path, progress)
        else:
            check_same_recipe(recipe, path)
        results.append(_result(recipe, run))
    return sorted(results, key=lambda one: -(one.value if one.value is not None else -1.0))


def _result(recipe: Recipe, run: RunFolder) -> ScoutResult:
    probe = run.training.linear_probe
    assert probe is not None
    train = read_rows(recipe, cache_folder(), silent).tables["train"]
    if run.data.parts["train"].fingerprint != train.fingerprint:
        raise RunError(
            f"{recipe.data.train} changed since {run.folder} was written; "
            "choose another folder with --out, or remove it"
        )
    rows = train.select(range(min(TIMED_ROWS, len(train))))
    predictor = Predictor.load(run.folder)
    predict_rows(predictor, rows.select(range(min(8, len(rows)))))  # the first texts also pay for what is set up once
    started = time.perf_counter()
    predict_rows(predictor, rows)
    return ScoutResult(
        model=recipe.model,
        metric=probe.metric,
        value=probe.value,
        half_width=probe.half_width,
        seconds=probe.seconds,
        texts_per_second=round(len(rows) / (time.perf_counter() - started), 1),
        megabytes=round(bytes_of_weights(run.model) / 1e6, 1),
        run=str(run.folder),
    )


def plot_scout(results: Sequence[ScoutResult], path: Path) -> None:
    """Plot each encoder's score over its speed, with the interval, to an SVG file."""
    figure, axes = new_figure(7, 4)
    for one in results:
        if one.value is None:
            continue
        axes.errorbar(one.texts_per_second, one.value, yerr=one.half_width or 0.0, fmt="o", color="#3b528b", capsize=4)
        name = f"{Path(one.model).name}, {one.megabytes:.0f} MB"
        axes.annotate(name, (one.texts_per_second, one.value), xytext=(8, 4), textcoords="offset points", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlabel("texts per second")
    axes.set_ylabel(f"{results[0].metric} of a linear probe, by cross-validation")
    axes.margins(x=0.3, y=0.2)
    save_figure(figure, path)
