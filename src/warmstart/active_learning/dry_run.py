"""A dry run of asking: on rows whose labels are known, how many each strategy needs beside random rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warmstart.active_learning.simulation import LabelledSet, LearningCurve, full_accuracy, round_sizes, simulate
from warmstart.active_learning.strategies import STRATEGIES, Numbers, Strategy
from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.source import Source
from warmstart.errors import DataError, Location, RecipeError
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.start_vectors import start_vectors
from warmstart.evaluation.statistics import difference_over_seeds, holm
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.shared.text_classification import TextClassification

SHARE = 0.95
"""The share of the accuracy with all rows that is to be reached."""
TEST_SHARE, MOST_TEST = 0.2, 2000
"""Rows that the learner is tested on: a share of all, and not more than this."""
FEWEST = 50
"""Rows below which a simulation says nothing."""


@dataclass(frozen=True)
class StrategyResult:
    """How many rows a strategy needed.

    Attributes:
        rows: The mean over seeds.
        ratio: The rows needed, divided by those by random rows with the same seed: a geometric mean.
        low: The lower end of its 95% interval, over seeds; `high` the upper.
        p: That of a paired t test over seeds, corrected by Holm over all strategies; None for random rows.
    """

    strategy: Strategy
    rows: float
    ratio: float
    low: float | None
    high: float | None
    p: float | None

    @property
    def saves(self) -> bool:
        """Whether it surely needs fewer rows than random ones."""
        return self.p is not None and self.p <= 0.05 and self.ratio < 1


@dataclass(frozen=True)
class DryRun:
    """What a simulation showed, the strategy that needed the fewest rows first."""

    share: float
    full_accuracy: float
    pool: int
    test: int
    seeds: int
    learner: str
    results: list[StrategyResult]
    verdict: str


def dry_run(
    run: RunFolder, task: object, source: Source, rows: int, seeds: int = 5, progress: Progress = silent
) -> DryRun:
    """Simulate asking on a labelled file, with every strategy and several seeds.

    Args:
        task: The task of the run: one label a row.
        rows: Rows of a round.
    """
    if not isinstance(task, TextClassification) or task.multi_label:
        name = getattr(task, "name", "this")
        raise RecipeError(f"--dry-run: found the task {name}; expected classify with one label a row")
    if seeds < 2:
        raise RecipeError(f"--seeds {seeds}: expected 2 or more, for an interval")
    if not run.recipe.model:
        raise RecipeError("--dry-run: the recipe starts an encoder from scratch, which has no features to learn from")
    table = list(iter_rows(source, task.schema(task.options), Findings()))
    labels = np.array([row["label"] for row in table])
    if len(table) < FEWEST or len(set(labels.tolist())) < 2:
        raise DataError(
            f"{len(table):,} rows of {len(set(labels.tolist()))} labels. Expected {FEWEST} rows or more, of 2 labels "
            "or more, to simulate on.",
            "no-rows",
            location=Location(source.files[0]),
        )
    vectors = start_vectors(run, table, len(table), progress)
    test = min(MOST_TEST, int(TEST_SHARE * len(table)))
    if rows >= (len(table) - test) / 2:
        most = (len(table) - test) // 4
        raise RecipeError(f"--rows {rows}: too many for {len(table) - test:,} rows to choose from; try --rows {most}")
    curves, full = _curves(vectors, labels, test, rows, seeds, progress)
    learner = f"logistic regression on frozen features of {run.recipe.model}"
    return summarize(curves, full, (len(table) - test, test), learner)


def _curves(
    vectors: Numbers, labels: np.ndarray, test: int, rows: int, seeds: int, progress: Progress
) -> tuple[dict[Strategy, list[LearningCurve]], list[float]]:
    """The learning curves of each strategy, and the accuracy with all rows, by seed."""
    curves: dict[Strategy, list[LearningCurve]] = {strategy: [] for strategy in STRATEGIES}
    full = []
    with progress.bar("simulating", seeds * len(STRATEGIES)) as bar:
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(labels))
            held, asked = order[:test], order[test:]
            data = LabelledSet(vectors[asked], labels[asked], vectors[held], labels[held])
            full.append(full_accuracy(data))
            sizes = round_sizes(rows, len(asked))
            for strategy in STRATEGIES:
                curves[strategy].append(simulate(data, strategy, sizes, seed, SHARE * full[-1]))
                bar.advance(note=strategy)
    return curves, full


def summarize(
    curves: dict[Strategy, list[LearningCurve]], full: Sequence[float], sizes: tuple[int, int], learner: str
) -> DryRun:
    """Rows needed by each strategy beside random rows, and what that comes to in a sentence.

    Args:
        full: The accuracy with all rows, by seed.
        sizes: Rows to choose from, and rows to test on.
    """
    needed = {
        strategy: [curve.rows_to(SHARE * best) for curve, best in zip(some, full, strict=True)]
        for strategy, some in curves.items()
    }
    random = [math.log(rows) for rows in needed["random"]]
    others = [strategy for strategy in needed if strategy != "random"]
    differences = {name: difference_over_seeds([math.log(rows) for rows in needed[name]], random) for name in others}
    corrected = dict(zip(differences, holm([one.p for one in differences.values()]), strict=True))
    results = [
        StrategyResult(
            name,
            float(np.mean(needed[name])),
            math.exp(one.mean),
            math.exp(one.low),
            math.exp(one.high),
            corrected[name],
        )
        for name, one in differences.items()
    ]
    results.append(StrategyResult("random", float(np.mean(needed["random"])), 1.0, None, None, None))
    results.sort(key=lambda result: result.ratio)
    accuracy = float(np.mean(full))
    return DryRun(SHARE, accuracy, *sizes, len(full), learner, results, verdict(results, accuracy))


def verdict(results: Sequence[StrategyResult], accuracy: float) -> str:
    """What the simulation comes to, in a sentence."""
    sure = [result for result in results if result.saves]
    random = next(result for result in results if result.strategy == "random")
    reach = f"{SHARE:.0%} of the accuracy with all rows labelled ({accuracy:.4f})"
    if not sure:
        return (
            f"Asking saves nothing that can be shown here: no strategy reaches {reach} with surely fewer rows than "
            f"random ones, which need {random.rows:,.0f}. Label random rows, or simulate on more."
        )
    best = sure[0]
    return (
        f"{best.strategy} reaches {reach} with {best.rows:,.0f} rows where random ones need {random.rows:,.0f}: "
        f"{best.ratio:.2f} times as many ({best.low:.2f} to {best.high:.2f})."
    )
