"""Comparing: whether one variant is better than another, and whether other seeds and other test rows would show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import RunError
from warmstart.evaluation.run_result import Row
from warmstart.evaluation.statistics import (
    Estimate,
    difference_over_rows,
    difference_over_seeds,
    hedges,
    holm,
    mcnemar,
    over_seeds,
)

LEVEL = 0.05
"""The corrected p value from which down a difference is said to be one."""


@dataclass(frozen=True)
class Summary:
    """A variant over its seeds."""

    variant: str
    headline: str
    all: Estimate
    """Over all seeds that gave a number, failed ones included."""
    sound: Estimate
    """Over the seeds that did not fail."""
    seeds: tuple[int, ...]
    failed: dict[int, str]
    """Seeds that failed, and why."""
    seconds: float
    """Mean training time of a run that gave a number."""

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
    seeds: Estimate
    """Of the headline, paired by seed, failed runs included: would other seeds show it?"""
    sound: Estimate
    """The same over the seeds that failed on neither side."""
    rows: Estimate | None
    """Of the scores, averaged over the same seeds and paired by row: would other test rows show it? None where the
    runs were not measured on the same rows."""
    failed: dict[str, tuple[int, ...]]
    """The seeds that failed, by variant."""
    won: int = 0
    """Test rows where the variant's score, averaged over the seeds, is the higher one; `lost` where it is the lower."""
    lost: int = 0
    mcnemar: float = math.nan
    """The p value of McNemar's test, where two single models were right or wrong on each row; else NaN."""
    models: bool = False
    """Whether it is these models that are compared, and not their recipes, so that rows alone can speak."""
    corrected: float = math.nan
    """The p value corrected for the number of comparisons made; `p` itself where it is the only one."""

    @property
    def difference(self) -> float:
        """The mean difference over the seeds."""
        return self.seeds.mean

    @property
    def p(self) -> float:
        """The larger of the two p values: a difference is only claimed if seeds and rows both speak for it."""
        if self.models and self.rows is not None:
            return self.rows.p
        return self.seeds.p if self.rows is None else max(self.seeds.p, self.rows.p, key=_nan_first)

    @property
    def shown(self) -> bool:
        """Whether a difference may be claimed."""
        return self.corrected <= LEVEL

    @property
    def effect(self) -> float:
        """Of the test rows where the two differ, the share on which the variant is better; 0.5 is neither."""
        return self.won / (self.won + self.lost) if self.won + self.lost else math.nan

    @property
    def d(self) -> float:
        """Cohen's d of the differences paired by seed: how many of their standard deviations the mean is from 0.

        With Hedges' correction, since d is too large where seeds are few.
        """
        return hedges(self.seeds)

    @property
    def interval(self) -> Estimate:
        """The estimate whose bounds the sentence gives: over seeds, or over rows where there is one model each."""
        return self.rows if self.models and self.rows is not None else self.seeds

    def sentence(self) -> str:
        """The difference in plain words, with how sure it is and what failed."""
        size = f"{abs(100 * self.difference):.1f} points"
        if self.shown:
            said = f"{self.variant} is {'better' if self.difference > 0 else 'worse'} than {self.reference} by {size}"
        elif self.difference:
            where = "above" if self.difference > 0 else "below"
            said = f"{self.variant} is {size} {where} {self.reference}, which may be chance"
        else:
            said = f"{self.variant} and {self.reference} are the same on average"
        if self.models:
            parts = [f"{said}{_points(self.interval)} over test rows; one model each, and other seeds may differ"]
        else:
            over = " over seeds" if self.seeds.count > 1 else ""
            parts = [f"{said}{_points(self.seeds)}{over}; {_seeds(self.seeds.count)} each"]
        if self.corrected == self.corrected:
            parts.append(f"p {_p(self.corrected)}")
        for name, failed in self.failed.items():
            if failed:
                parts.append(f"{len(failed)} of {name} failed (seed {', '.join(map(str, failed))})")
        if any(self.failed.values()) and self.sound.count:
            parts.append(f"without failed seeds {100 * self.sound.mean:+.1f} points{_points(self.sound)}")
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values; what is undefined is None."""
        both = {"seeds": self.seeds, "rows": self.rows}
        return {
            "variant": self.variant,
            "reference": self.reference,
            "difference": number(self.difference),
            "low": number(self.interval.low),
            "high": number(self.interval.high),
            "over": "rows" if self.models else "seeds",
            "p": number(self.p),
            "corrected": number(self.corrected),
            "effect": number(self.effect),
            "won": self.won,
            "lost": self.lost,
            "d": number(self.d),
            "mcnemar": number(self.mcnemar),
            **{name: one and {key: number(value) for key, value in asdict(one).items()} for name, one in both.items()},
            "shown": self.shown,
            "sentence": self.sentence(),
        }


def summarise(rows: Sequence[Row]) -> Summary:
    """The mean of one variant's runs with and without those that failed."""
    if not rows:
        raise RunError("there are no runs to sum up; expected one or more of one variant")
    numbers = [row for row in rows if row.value == row.value]
    return Summary(
        rows[0].variant,
        next((row.headline for row in rows if row.headline), ""),
        over_seeds([row.value for row in numbers]),
        over_seeds([row.value for row in numbers if not row.failed]),
        tuple(row.seed for row in rows),
        {row.seed: row.failed for row in rows if row.failed},
        float(np.mean([row.seconds for row in numbers or rows])),
    )


def compare(rows: Sequence[Row], reference: Sequence[Row], models: bool = False) -> Comparison:
    """Compare one variant's runs with those of its reference, over the seeds that both have numbers for.

    Args:
        models: With one run each, whether the two models are what is asked about: test rows alone can then show a
            difference, and nothing is said of other trainings.
    """
    if not rows or not reference:
        raise RunError("there are no runs to compare; expected one or more on both sides")
    other = {row.seed: row for row in reference}
    pairs = [(row, other[row.seed]) for row in rows if row.seed in other]
    pairs = [(a, b) for a, b in pairs if a.value == a.value and b.value == b.value]
    sound = [(a, b) for a, b in pairs if not a.failed and not b.failed]
    names = rows[0].variant, reference[0].variant
    failed = {
        name: tuple(row.seed for row in side if row.failed) for name, side in zip(names, (rows, reference), strict=True)
    }
    single = models and len(pairs) == 1
    sides = _by_row(pairs)
    found = Comparison(*names, _over_seeds(pairs), _over_seeds(sound), None, failed, models=single)
    if sides is not None:
        won, lost = int((sides[0] > sides[1]).sum()), int((sides[0] < sides[1]).sum())
        yes_or_no = len(pairs) == 1 and set(np.unique(sides)) <= {0.0, 1.0}
        test = mcnemar(won, lost) if yes_or_no else math.nan
        found = replace(found, rows=difference_over_rows(*sides), won=won, lost=lost, mcnemar=test)
    return replace(found, corrected=found.p)


def compare_all(rows: Sequence[Row], reference: str | Mapping[str, str], models: bool = False) -> list[Comparison]:
    """Compare every variant with its reference, the p values corrected for the number of comparisons (Holm).

    Args:
        reference: The variant that all others are compared with, or for each variant its own; a variant that is not
            named there is compared with none.
        models: As in `compare`.
    """
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.variant, []).append(row)
    if isinstance(reference, str):
        reference = {name: reference for name in by_name if name != reference}
    wanted = [(name, reference[name]) for name in by_name if reference.get(name) in by_name]
    found = [compare(by_name[name], by_name[other], models) for name, other in wanted]
    return [replace(one, corrected=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def scores_over_seeds(rows: Sequence[Row]) -> NDArray[np.float64] | None:
    """Each test row's score, averaged over runs; None where the runs were not measured on the same rows."""
    if not rows or any(row.names != rows[0].names for row in rows):
        return None
    found: NDArray[np.float64] = np.mean([row.scores for row in rows], axis=0)
    return found


Pairs = Sequence[tuple[Row, Row]]


def _over_seeds(pairs: Pairs) -> Estimate:
    return difference_over_seeds([a.value for a, _ in pairs], [b.value for _, b in pairs])


def _by_row(pairs: Pairs) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Each side's scores, averaged over the seeds.

    None where the runs were not measured on the same rows, or a seed draws its own: a row's score is then no average.
    """
    if scores_over_seeds([row for pair in pairs for row in pair]) is None:
        return None
    ours, theirs = (scores_over_seeds([pair[side] for pair in pairs]) for side in (0, 1))
    return None if ours is None or theirs is None else (ours, theirs)


def _nan_first(p: float) -> float:
    """Order p values with the unknown one as the largest."""
    return math.inf if p != p else p


def number(value: Any) -> Any:
    """A number as JSON has it: null for what is undefined or without end."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float) -> str:
    return f"{value:.4f}"


def _interval(estimate: Estimate) -> str:
    return f" (95% interval {estimate.low:.4f} to {estimate.high:.4f})" if estimate.count > 1 else ""


def _points(estimate: Estimate) -> str:
    return f", 95% interval {100 * estimate.low:.1f} to {100 * estimate.high:.1f}" if estimate.count > 1 else ""


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
