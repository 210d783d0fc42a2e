"""What became of a study's claims: holds, does not show, contradicted, or not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from warmstart.evaluation.comparison import Comparison, compare, correct
from warmstart.recipe.study import Study
from warmstart.recipe.study_claims import StudyClaim
from warmstart.studies.cells import Cell
from warmstart.studies.figures import KeptResult
from warmstart.studies.regret import Results

Word = Literal["holds", "does not show", "contradicted", "not measured"]
HOLDS: Word = "holds"
DOES_NOT_SHOW: Word = "does not show"
CONTRADICTED: Word = "contradicted"
NOT_MEASURED: Word = "not measured"
WORDS = (HOLDS, DOES_NOT_SHOW, CONTRADICTED, NOT_MEASURED)
ABOUT = """
A claim is compared over all cells that it is about: paired by seed, the mean over cells, and paired by test row. It
*holds* if the method is ahead by both, with p values corrected for the number of comparisons of all claims (Holm); it
is *contradicted* if it is behind by both; otherwise it *does not show*. A claim that methods are level holds if both
95% intervals lie within the points it names. With fewer than two seeds a claim is *not measured*.
""".strip()


@dataclass(frozen=True)
class Verdict:
    """A claim, and what the figures say of it."""

    claim: StudyClaim
    word: Word
    details: str
    """The differences with their intervals, in words."""


@dataclass(frozen=True)
class _Pooled:
    """A claim's method beside one of the others, over the cells that both were measured on."""

    cells: int
    comparison: Comparison


def judge(study: Study, results: Results) -> list[Verdict]:
    """The verdict on each claim of a study."""
    wanted = [(claim, other) for claim in study.claims for other in claim.of]
    pooled = [_pool(results, claim, other) for claim, other in wanted]
    corrected = iter(correct([one.comparison for one in pooled if one is not None]))
    judged = [None if one is None else _Pooled(one.cells, next(corrected)) for one in pooled]
    verdicts, at = [], 0
    for claim in study.claims:
        own = judged[at : at + len(claim.of)]
        at += len(claim.of)
        details = [_details(claim, other, one) for other, one in zip(claim.of, own, strict=True)]
        words = {NOT_MEASURED if one is None else _word(claim, one.comparison) for one in own}
        order = (CONTRADICTED, NOT_MEASURED, DOES_NOT_SHOW, HOLDS)
        verdicts.append(Verdict(claim, next(word for word in order if word in words), "; ".join(details)))
    return verdicts


def _word(claim: StudyClaim, one: Comparison) -> Word:
    if claim.within is None:
        return DOES_NOT_SHOW if not one.significant else HOLDS if one.difference > 0 else CONTRADICTED
    most = claim.within / 100
    if all(-most <= each.low and each.high <= most for each in (one.seeds, one.rows) if each is not None):
        return HOLDS
    return CONTRADICTED if one.significant and abs(one.difference) > most else DOES_NOT_SHOW


def _pool(results: Results, claim: StudyClaim, other: str) -> _Pooled | None:
    """Both methods over all cells of the claim; None where no cell has two seeds of both."""
    sides: list[dict[Cell, dict[int, KeptResult]]] = [
        {cell: _by_seed(rows, name) for cell, rows in results.items() if _about(claim, cell)}
        for name in (claim.ahead, other)
    ]
    shared = {cell: set(sides[0][cell]) & set(sides[1][cell]) for cell in sides[0]}
    cells = [cell for cell, seeds in shared.items() if len(seeds) > 1]
    seeds = sorted(set.intersection(*(shared[cell] for cell in cells))) if cells else []
    if len(seeds) < 2:
        return None
    ours, theirs = ([_merge([side[cell][seed] for cell in cells], claim) for seed in seeds] for side in sides)
    return _Pooled(len(cells), compare(ours, theirs))


def _by_seed(rows: Sequence[KeptResult], method: str) -> dict[int, KeptResult]:
    return {row.seed: row for row in rows if row.variant == method and row.value == row.value}


def _about(claim: StudyClaim, cell: Cell) -> bool:
    return (claim.sets is None or cell.set in claim.sets) and (claim.sizes is None or cell.size in claim.sizes)


def _merge(rows: Sequence[KeptResult], claim: StudyClaim) -> KeptResult:
    """The results of one method and seed on several cells as one: the mean of the values, all test rows."""
    first = replace(rows[0], failed="")
    if claim.measure == "failed":
        # A run has failed or not, whatever the rows: names of its own keep them out of the comparison.
        sound = 1 - float(np.mean([bool(row.failed) for row in rows]))
        return replace(first, value=sound, of=(f"{first.variant} {first.seed}",), quality=(sound,))
    names = tuple(f"{number} {name}" for number, row in enumerate(rows) for name in row.of)
    quality = tuple(score for row in rows for score in row.quality)
    return replace(first, value=float(np.mean([row.value for row in rows])), of=names, quality=quality)


def _details(claim: StudyClaim, other: str, pooled: _Pooled | None) -> str:
    if pooled is None:
        return f"{claim.ahead} and {other}: fewer than two seeds of both"
    one = pooled.comparison
    what = "points of the share of runs that did not fail" if claim.measure == "failed" else "points"
    over = f"{one.seeds.count} seeds" + (f", {pooled.cells} cells" if pooled.cells > 1 else "")
    p = "" if one.p_corrected != one.p_corrected else f", p {one.p_corrected:.3f}"
    where = "behind" if one.difference < 0 else "ahead of"
    bounds = f"{100 * one.seeds.low:+.1f} to {100 * one.seeds.high:+.1f}"
    return f"{claim.ahead} is {abs(100 * one.difference):.1f} {what} {where} {other} ({bounds}, {over}{p})"
