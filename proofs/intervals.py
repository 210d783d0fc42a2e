"""Intervals contain the truth as often as they say, and tests claim a difference where there is none as seldom.

Scores are simulated to look like those of fine-tuned classifiers: each test row is more or less difficult, each seed is
a little better or worse than the others, and a prediction is right or wrong. So the truth is known. There are 300 to
1,000 rows and five seeds, with accuracies from 0.6 to 0.95. A trial simulates one comparison; the percentages are over
all trials.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from common import arguments, finish, write_page
from warmstart.evaluation import statistics as estimates
from warmstart.evaluation.comparison import SIGNIFICANCE

SEEDS, VARIANTS = 5, 4
RESAMPLES = 999
"""Resamples of a bootstrap or permutation; a tenth of what users get, which adds noise and no bias."""
HARDNESS, SEED_SPREAD, NOISE = 1.0, 0.1, 0.7
"""Standard deviations, on a probit scale, of how hard rows are, how good seeds are, and what is neither."""
TOTAL = float(np.hypot(HARDNESS, NOISE))
Matrix = NDArray[np.float64]


class World:
    """One trial's test rows and how accurate a variant is on average over all rows and seeds."""

    def __init__(self, number: int) -> None:
        self.random = np.random.default_rng([2026, number])
        self.rows = int(self.random.integers(300, 1001))
        self.hard = self.random.normal(0, HARDNESS, self.rows)
        self.level = float(stats.norm.ppf(self.random.uniform(0.6, 0.95)) * np.hypot(TOTAL, SEED_SPREAD))

    def models(self, seeds: int) -> Matrix:
        """How good each seed's model is."""
        return self.level + self.random.normal(0, SEED_SPREAD, seeds)

    def scores(self, models: Matrix) -> Matrix:
        """1 or 0 for each model and row."""
        noise = self.random.normal(0, NOISE, (len(models), self.rows))
        found: Matrix = (models[:, None] - self.hard + noise > 0).astype(float)
        return found

    def on_these_rows(self) -> float:
        """The mean accuracy of all seeds that could be, on the rows of this trial."""
        return float(stats.norm.cdf((self.level - self.hard) / np.hypot(NOISE, SEED_SPREAD)).mean())

    @staticmethod
    def on_all_rows(models: Matrix) -> float:
        """The mean accuracy of these models on all rows that could be."""
        return float(stats.norm.cdf(models / TOTAL).mean())


def trial(number: int, covered: dict[str, list[bool]], wrong: dict[str, list[bool]]) -> None:
    """Simulate once: note which intervals hold the truth, and which tests see a difference that is not there."""
    world = World(number)
    models = [world.models(SEEDS) for _ in range(VARIANTS)]
    scores = [world.scores(one) for one in models]
    means = [one.mean(axis=1) for one in scores]

    def note(name: str, estimate: estimates.MeanEstimate, truth: float) -> None:
        covered[name].append(estimate.low <= truth <= estimate.high)

    note("mean over seeds", estimates.over_seeds(means[0]), world.on_these_rows())
    note("mean over rows", estimates.over_rows(scores[0].mean(axis=0), number), world.on_all_rows(models[0]))
    note("mean over rows, one model", estimates.over_rows(scores[0][0], number), world.on_all_rows(models[0][:1]))
    seeds = [estimates.difference_over_seeds(one, means[0]) for one in means[1:]]
    note("difference over seeds", seeds[0], 0.0)
    rows = [estimates.difference_over_rows(one.mean(axis=0), scores[0].mean(axis=0), number) for one in scores[1:]]
    apart = world.on_all_rows(models[1]) - world.on_all_rows(models[0])
    note("difference over rows", rows[0], apart)
    _tests(world, seeds, rows, wrong)


def _tests(world: World, seeds: list[Any], rows: list[Any], wrong: dict[str, list[bool]]) -> None:
    """Which tests claim a difference. For those over rows both sides are as good as each other on all rows."""
    wrong["t test over seeds"].append(seeds[0].p <= SIGNIFICANCE)
    same = world.models(SEEDS)
    a, b = world.scores(same), world.scores(same)
    over = estimates.difference_over_rows(a.mean(axis=0), b.mean(axis=0), world.rows)
    wrong["permutation test over rows"].append(over.p <= SIGNIFICANCE)
    single = estimates.difference_over_rows(a[0], b[0], world.rows)
    wrong["permutation test over rows, one model each"].append(single.p <= SIGNIFICANCE)
    won, lost = int((a[0] > b[0]).sum()), int((a[0] < b[0]).sum())
    wrong["McNemar, mid-p"].append(estimates.mcnemar(won, lost) <= SIGNIFICANCE)
    wrong["McNemar, exact"].append(
        bool(stats.binomtest(won, won + lost).pvalue <= SIGNIFICANCE) if won + lost else False
    )
    both = [max(one.p, other.p) for one, other in zip(seeds, rows, strict=True)]
    wrong["a claim, of seeds and rows"].append(both[0] <= SIGNIFICANCE)
    wrong["any of three t tests, Holm"].append(min(estimates.holm([one.p for one in seeds])) <= SIGNIFICANCE)
    wrong["any of three claims, Holm"].append(min(estimates.holm(both)) <= SIGNIFICANCE)


NEAR = ("t test over seeds", "permutation test over rows", "McNemar, mid-p")
"""Tests that are to be right at their level; the others may find less, and say so."""


def main() -> None:
    """Simulate and report; leaves with 1 where a mark is missed at the full size."""
    args = arguments(__doc__ or "", 2000, "trials")
    estimates.RESAMPLES = RESAMPLES
    covered: dict[str, list[bool]] = defaultdict(list)
    wrong: dict[str, list[bool]] = defaultdict(list)
    for number in range(args.n):
        trial(number, covered, wrong)
    coverage = {name: float(np.mean(hits)) for name, hits in covered.items()}
    found = {name: float(np.mean(hits)) for name, hits in wrong.items()}
    if args.write:
        title = "Intervals and tests against a known truth"
        write_page("statistics", title, "make proof-statistics", _page(args.n, coverage, found))
    finish({"trials": args.n, "coverage": coverage, "false_positives": found})
    good = all(0.93 <= share <= 0.97 for share in coverage.values())
    good = good and all(0.04 <= found[name] <= 0.06 for name in NEAR) and all(one <= 0.06 for one in found.values())
    if args.n >= 2000 and not good:
        sys.exit(f"{Path(__file__).name}: a share is outside of its mark")


def _page(trials: int, coverage: dict[str, float], wrong: dict[str, float]) -> str:
    sure = 100 * 1.96 * float(np.sqrt(0.05 * 0.95 / trials))
    inside, false = [100 * share for share in coverage.values()], [100 * share for share in wrong.values()]
    lines = [
        f"95% intervals contain the truth in **{min(inside):.1f} to {max(inside):.1f}%** of the trials, and tests "
        f"at the 5% level find a difference that is not there in **{min(false):.1f} to {max(false):.1f}%**.",
        " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        f"There are {trials:,} trials, so a percentage of 5% or 95% is accurate to about {sure:.1f} points.",
        "## 95% confidence intervals",
        "| interval | contains the truth, % |\n| --- | ---: |\n"
        + "\n".join(f"| {name} | {100 * share:.1f} |" for name, share in coverage.items()),
        "## Tests at the 5% level, without a difference",
        "| test | finds a difference, % |\n| --- | ---: |\n"
        + "\n".join(f"| {name} | {100 * share:.1f} |" for name, share in wrong.items()),
        "*Over seeds* asks what other training seeds would give on the same test rows; *over rows* what the same "
        "models would give on other rows. A claim is made only if both tests are significant, so it is wrong no more "
        "often than the test over seeds. McNemar's exact test and the permutation test of two single models count "
        "whole rows, and are conservative; the mid-p value corrects that. With Holm's correction, the percentage is "
        "that of trials in which any of three comparisons finds a difference.",
    ]
    return "\n\n".join(lines)


if __name__ == "__main__":
    main()
