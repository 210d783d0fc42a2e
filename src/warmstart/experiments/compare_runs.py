"""Comparing finished runs, wherever they are, with the first of them, if they were evaluated alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warmstart.errors import Location, RunError
from warmstart.evaluation.comparison import Comparison, VariantSummary, compare, correct, summarize
from warmstart.evaluation.predictions import PREDICTION_FILES, SIMPLE, read_predictions
from warmstart.evaluation.records import evidence
from warmstart.evaluation.run import RECIPE, RunFolder
from warmstart.evaluation.run_result import RunResult, read_result
from warmstart.experiments.variants import OWN
from warmstart.runtime import notebook_html

Rows = list[tuple[Location, str]]
"""File and line of each row, and its true answer."""


@dataclass(frozen=True, repr=False)
class RunComparison:
    """Runs compared with the first of them."""

    headline: str
    part: str
    summaries: list[VariantSummary]
    """Each run, in the order they were given."""
    comparisons: list[Comparison]
    """Each but the first with the first; p values corrected for their number (Holm)."""

    def __repr__(self) -> str:
        return "\n".join([*(one.sentence() for one in self.summaries), *(one.sentence() for one in self.comparisons)])

    def _repr_html_(self) -> str:
        """The comparison in a notebook."""
        number = notebook_html.number
        differences = {one.variant: one for one in self.comparisons}
        rows = []
        for summary in self.summaries:
            one = differences.get(summary.variant)
            bounds = "" if one is None else f"{number(one.interval.low, True)} to {number(one.interval.high, True)}"
            difference = (
                [number(one.difference, True), bounds, number(one.p_corrected)] if one else ["reference", "", ""]
            )
            rows.append([summary.variant, summary.all.mean, len(summary.seeds), *difference])
        columns = ["run", self.headline, "seeds", "difference", "95% interval", "p (Holm)"]
        sentences = "".join(notebook_html.line(one.sentence()) for one in self.comparisons[: notebook_html.MOST_ROWS])
        return notebook_html.table(f"{self.headline} on {self.part} rows", columns, rows) + sentences


def compare_runs(folders: Sequence[str | Path]) -> RunComparison:
    """Compare runs with the first of them.

    Args:
        folders: Runs, runs of several seeds, or folders of runs `seed-0`, `seed-1` …, as `repeat` writes for a variant.
    """
    if len(folders) < 2:
        raise RunError(f"compare: found {len(folders)} run, expected two or more, the reference first")
    if twice := {str(folder) for folder in folders if list(map(str, folders)).count(str(folder)) > 1}:
        raise RunError(f"compare: {', '.join(sorted(twice))} is given twice; give each run once")
    reference, *others = (open_runs(folder, name) for folder, name in zip(folders, _names(folders), strict=True))
    comparisons = []
    for results in others:
        mine, theirs = _paired(results, reference)
        check_alike(mine, theirs)
        # One model on either side says nothing of other trainings, but test rows can tell the two models apart.
        comparisons.append(compare(mine, theirs, models=len(mine) == len(theirs) == 1))
    first = next(result for result in reference if result.headline)
    summaries = [summarize(results) for results in (reference, *others)]
    return RunComparison(first.headline, first.part, summaries, correct(comparisons))


def _names(folders: Sequence[str | Path]) -> list[str]:
    """The folders by their last names, or by their whole paths where those are not all different."""
    last = [Path(folder).name for folder in folders]
    return last if all(last) and len(set(last)) == len(last) else [str(folder) for folder in folders]


def open_runs(folder: str | Path, name: str) -> list[RunResult]:
    """The result of a run, of each seed of a run of several, or of each run `seed-…` in a folder, under a name."""
    folder = Path(folder)
    if (folder / RECIPE).is_file():
        run = RunFolder(folder)
        if not run.finished:
            raise RunError(f"{folder} is not finished; run `warmstart fit` again to resume it")
        if not (folder / evidence.FILE).is_file():
            return [read_result(folder, name, run.recipe.seed)]
        folder = folder / "variants" / OWN
    runs = sorted((int(path.name.removeprefix("seed-")), path) for path in folder.glob("seed-[0-9]*"))
    if not runs:
        raise RunError(f"{folder}: no run, and no folder of runs (seed-0, seed-1 …); give what `warmstart fit` wrote")
    results = [read_result(path, name, seed) for seed, path in runs if (path / RECIPE).is_file()]
    if not any(result.headline for result in results):
        raise RunError(f"{folder}: no run in it was measured")
    return results


def _paired(results: list[RunResult], reference: list[RunResult]) -> tuple[list[RunResult], list[RunResult]]:
    """Both sides with the seeds they share; those that share none are paired in order, which is as good by chance."""
    shared = {result.seed for result in results} & {result.seed for result in reference}
    if shared:
        mine, theirs = ([result for result in side if result.seed in shared] for side in (results, reference))
        return mine, theirs
    both = list(zip(results, reference, strict=False))
    return [replace(mine, seed=theirs.seed) for mine, theirs in both], [theirs for _, theirs in both]


def check_alike(results: Sequence[RunResult], reference: Sequence[RunResult]) -> None:
    """Refuse runs that were not measured by the same metric on the same rows, naming a row that differs."""
    for mine, theirs in zip(results, reference, strict=True):
        if not mine.headline or not theirs.headline:  # its training failed, and there is nothing to compare
            continue
        if (mine.headline, mine.part) != (theirs.headline, theirs.part):
            measured = [f"{result.variant} by {result.headline} on {result.part} rows" for result in (mine, theirs)]
            raise RunError(f"compare: found {measured[0]}, {measured[1]}; expected runs measured alike")
        first, second = (_rows(result) for result in (mine, theirs))
        if first != second:
            raise RunError(f"compare: {_difference(mine, theirs, first, second)}")


def _rows(result: RunResult) -> Rows:
    """The evaluated rows of a run, wherever their file was."""
    predictions = read_predictions(result.folder / PREDICTION_FILES[result.part], SIMPLE)
    if predictions.simple_answers() is None:  # the true answers are no labels or numbers: the line alone must do
        truth = [""] * len(result.row_names)
    else:
        truth = [str(answer) for answer in predictions.truth or ()]
    return list(zip(result.row_names, truth, strict=True))


def _difference(mine: RunResult, theirs: RunResult, first: Rows, second: Rows) -> str:
    names = f"{mine.variant} and {theirs.variant}"
    hint = "expected the same test rows; give both recipes the same data.test, or the same data.split.seed"
    for a, b in zip(first, second, strict=False):
        if a != b:
            rows = [f"{row} ({answer})" if answer else str(row) for row, answer in (a, b)]
            return f"{names} were evaluated on different rows: {rows[0]} there, {rows[1]} here; {hint}"
    return f"{names} were evaluated on {len(first):,} and {len(second):,} rows; {hint}"
