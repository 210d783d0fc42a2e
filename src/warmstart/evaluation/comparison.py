"""Comparing: whether one variant is better than another, and whether other seeds and other test rows would show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import RunError
from warmstart.evaluation.records.evidence import ComparisonRecord, EstimateRecord
from warmstart.evaluation.run_result import RunResult
from warmstart.evaluation.statistics import (
    MeanEstimate,
    difference_over_rows,
    difference_over_seeds,
    hedges,
    holm,
    mcnemar,
    over_seeds,
)

SIGNIFICANCE = 0.05
"""The corrected p value up to which a difference is called significant."""


@dataclass(frozen=True)
class VariantSummary:
    """A variant over its seeds."""

    variant: str
    headline: str
    all: MeanEstimate
    """Over all seeds that were measured, failed ones included."""
    sound: MeanEstimate
    """Over the seeds that did not fail."""
    seeds: tuple[int, ...]
    failed: dict[int, str]
    """Seeds that failed, and why."""
    seconds: float
    """Mean training time of a run that was measured."""

    def sentence(self) -> str:
        """The mean in plain words, with what failed."""
        text = (
            f"{self.variant}: {self.headline} {_number(self.all.mean)}{_interval(self.all)}, {_seeds(self.all.count)}"
        )
        if not self.failed:
            return text
        failed = f"{len(self.failed)} failed (seed {', '.join(map(str, self.failed))})"
        return f"{text}; {failed}, without {_number(self.sound.mean)}{_interval(self.sound)}"


@dataclass(frozen=True)
class Comparison:
    """The difference of a variant to its reference, in the units of the metric (0.01 is a point)."""

    variant: str
    reference: str
    seeds: MeanEstimate
    """Of the headline, paired by seed, failed runs included: would other seeds show it?"""
    sound: MeanEstimate
    """The same over the seeds that failed on neither side."""
    rows: MeanEstimate | None
    """Of the scores, averaged over the same seeds and paired by row: would other test rows show it? None where the
    runs were not evaluated on the same rows."""
    failed: dict[str, tuple[int, ...]]
    """The seeds that failed, by variant."""
    won: int = 0
    """Test rows where the variant's score, averaged over the seeds, is the higher one; `lost` where it is the lower."""
    lost: int = 0
    mcnemar: float = math.nan
    """The p value of McNemar's test, where two single models were right or wrong on each row; else NaN."""
    models: bool = False
    """Whether these models are compared, and not their recipes, so that test rows alone can show a difference."""
    p_corrected: float = math.nan
    """The p value corrected for the number of comparisons made; `p` itself where it is the only one."""

    @property
    def difference(self) -> float:
        """The mean difference over the seeds."""
        return self.seeds.mean

    @property
    def p(self) -> float:
        """The larger of the two p values: a difference is only claimed if both seeds and rows show it."""
        if self.models and self.rows is not None:
            return self.rows.p
        return self.seeds.p if self.rows is None else max(self.seeds.p, self.rows.p, key=_nan_first)

    @property
    def significant(self) -> bool:
        """Whether a difference may be claimed."""
        return self.p_corrected <= SIGNIFICANCE

    @property
    def effect(self) -> float:
        """Of the test rows where the two differ, the share on which the variant is better; 0.5 is neither."""
        return self.won / (self.won + self.lost) if self.won + self.lost else math.nan

    @property
    def cohens_d(self) -> float:
        """Cohen's d of the differences paired by seed: how many of their standard deviations the mean is from 0.

        With Hedges' correction, since d is too large where seeds are few.
        """
        return hedges(self.seeds)

    @property
    def interval(self) -> MeanEstimate:
        """The estimate whose bounds the sentence gives: over seeds, or over rows where there is one model each."""
        return self.rows if self.models and self.rows is not None else self.seeds

    def sentence(self) -> str:
        """The difference in plain words, with its uncertainty and what failed."""
        size = f"{abs(100 * self.difference):.1f} points"
        if self.significant:
            claim = f"{self.variant} is {'better' if self.difference > 0 else 'worse'} than {self.reference} by {size}"
        elif self.difference:
            where = "above" if self.difference > 0 else "below"
            claim = f"{self.variant} is {size} {where} {self.reference}, which may be chance"
        else:
            claim = f"{self.variant} and {self.reference} are the same on average"
        if self.models:
            parts = [f"{claim}{_points(self.interval)} over test rows; one model each, and other seeds may differ"]
        else:
            over = " over seeds" if self.seeds.count > 1 else ""
            parts = [f"{claim}{_points(self.seeds)}{over}; {_seeds(self.seeds.count)} each"]
        if self.p_corrected == self.p_corrected:
            parts.append(f"p {_p(self.p_corrected)}")
        for name, failed in self.failed.items():
            if failed:
                parts.append(f"{len(failed)} of {name} failed (seed {', '.join(map(str, failed))})")
        if any(self.failed.values()) and self.sound.count:
            parts.append(f"without failed seeds {100 * self.sound.mean:+.1f} points{_points(self.sound)}")
        return "; ".join(parts)

    def record(self) -> ComparisonRecord:
        """The comparison as `evidence.json` holds it; what is undefined is None."""
        return ComparisonRecord(
            variant=self.variant,
            reference=self.reference,
            difference=finite(self.difference),
            low=finite(self.interval.low),
            high=finite(self.interval.high),
            over="rows" if self.models else "seeds",
            p=finite(self.p),
            p_corrected=finite(self.p_corrected),
            effect=finite(self.effect),
            won=self.won,
            lost=self.lost,
            cohens_d=finite(self.cohens_d),
            mcnemar=finite(self.mcnemar),
            seeds=_estimate_record(self.seeds),
            rows=None if self.rows is None else _estimate_record(self.rows),
            significant=self.significant,
            sentence=self.sentence(),
        )


def summarize(results: Sequence[RunResult]) -> VariantSummary:
    """The mean of one variant's runs with and without those that failed."""
    if not results:
        raise RunError("there are no runs to summarize; expected one or more of one variant")
    measured = [result for result in results if result.value == result.value]
    return VariantSummary(
        results[0].variant,
        next((result.headline for result in results if result.headline), ""),
        over_seeds([result.value for result in measured]),
        over_seeds([result.value for result in measured if not result.failed]),
        tuple(result.seed for result in results),
        {result.seed: result.failed for result in results if result.failed},
        float(np.mean([result.seconds for result in measured or results])),
    )


def compare(results: Sequence[RunResult], reference: Sequence[RunResult], models: bool = False) -> Comparison:
    """Compare one variant's runs with those of its reference, over the seeds that were measured on both sides.

    Args:
        models: With one run each, whether the question is about these two models: test rows alone can then show a
            difference, and nothing is claimed about other trainings.
    """
    if not results or not reference:
        raise RunError("there are no runs to compare; expected one or more on both sides")
    other = {result.seed: result for result in reference}
    pairs = [(result, other[result.seed]) for result in results if result.seed in other]
    pairs = [(a, b) for a, b in pairs if a.value == a.value and b.value == b.value]
    sound = [(a, b) for a, b in pairs if not a.failed and not b.failed]
    names = results[0].variant, reference[0].variant
    failed = {
        name: tuple(result.seed for result in side if result.failed)
        for name, side in zip(names, (results, reference), strict=True)
    }
    single = models and len(pairs) == 1
    sides = _by_row(pairs)
    comparison = Comparison(*names, _over_seeds(pairs), _over_seeds(sound), None, failed, models=single)
    if sides is not None:
        won, lost = int((sides[0] > sides[1]).sum()), int((sides[0] < sides[1]).sum())
        yes_or_no = len(pairs) == 1 and set(np.unique(sides)) <= {0.0, 1.0}
        test = mcnemar(won, lost) if yes_or_no else math.nan
        over = difference_over_rows(*sides)
        comparison = replace(comparison, rows=over, won=won, lost=lost, mcnemar=test)
    return replace(comparison, p_corrected=comparison.p)


def compare_all(
    results: Sequence[RunResult], reference: str | Mapping[str, str], models: bool = False
) -> list[Comparison]:
    """Compare every variant with its reference, the p values corrected for the number of comparisons (Holm).

    Args:
        reference: The variant that all others are compared with, or for each variant its own; a variant that is not
            a key there is not compared.
        models: As in `compare`.
    """
    by_name: dict[str, list[RunResult]] = {}
    for result in results:
        by_name.setdefault(result.variant, []).append(result)
    if isinstance(reference, str):
        reference = {name: reference for name in by_name if name != reference}
    wanted = [(name, reference[name]) for name in by_name if reference.get(name) in by_name]
    return correct([compare(by_name[name], by_name[other], models) for name, other in wanted])


def correct(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with their p values corrected for their number (Holm)."""
    corrected = holm([comparison.p for comparison in comparisons])
    return [replace(comparison, p_corrected=p) for comparison, p in zip(comparisons, corrected, strict=True)]


def scores_over_seeds(results: Sequence[RunResult]) -> NDArray[np.float64] | None:
    """Each test row's score, averaged over runs; None where the runs were not evaluated on the same rows."""
    if not results or any(result.row_names != results[0].row_names for result in results):
        return None
    means: NDArray[np.float64] = np.mean([result.scores for result in results], axis=0)
    return means


Pairs = Sequence[tuple[RunResult, RunResult]]


def _over_seeds(pairs: Pairs) -> MeanEstimate:
    return difference_over_seeds([a.value for a, _ in pairs], [b.value for _, b in pairs])


def _by_row(pairs: Pairs) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Each side's scores, averaged over the seeds.

    None where the runs were not evaluated on the same rows, or a seed draws its own: a row's score is then no average.
    """
    if scores_over_seeds([result for pair in pairs for result in pair]) is None:
        return None
    ours, theirs = (scores_over_seeds([pair[side] for pair in pairs]) for side in (0, 1))
    return None if ours is None or theirs is None else (ours, theirs)


def _nan_first(p: float) -> float:
    """Order p values with the unknown one as the largest."""
    return math.inf if p != p else p


def finite(value: float) -> float | None:
    """A number as a record holds it: None where it is undefined or infinite."""
    return value if math.isfinite(value) else None


def _estimate_record(estimate: MeanEstimate) -> EstimateRecord:
    bounds = finite(estimate.mean), finite(estimate.low), finite(estimate.high)
    return EstimateRecord(*bounds, estimate.count, finite(estimate.p))


def _number(value: float) -> str:
    return f"{value:.4f}"


def _interval(estimate: MeanEstimate) -> str:
    return f" (95% interval {estimate.low:.4f} to {estimate.high:.4f})" if estimate.count > 1 else ""


def _points(estimate: MeanEstimate) -> str:
    return f", 95% interval {100 * estimate.low:.1f} to {100 * estimate.high:.1f}" if estimate.count > 1 else ""


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
