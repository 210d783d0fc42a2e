"""Runs held side by side: finished ones from anywhere, compared with the first, if they were measured alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warmstart.errors import RunError
from warmstart.evaluation.comparison import Comparison, Summary, compare, summarise
from warmstart.evaluation.run import PREDICTIONS, RunFolder
from warmstart.evaluation.run_result import Row, read_predictions, read_row
from warmstart.evaluation.statistics import holm
from warmstart.experiments.variants import ASKED


@dataclass(frozen=True)
class Beside:
    """What `beside` found."""

    headline: str
    part: str
    summaries: list[Summary]
    """Each of the given, in their order."""
    comparisons: list[Comparison]
    """Each but the first with the first; p values corrected for their number (Holm)."""


def beside(folders: Sequence[str | Path]) -> Beside:
    """Compare runs with the first of them.

    Args:
        folders: Runs, runs of several seeds, or folders of runs `seed-0`, `seed-1` …, as `repeat` writes for a variant.
    """
    if len(folders) < 2:
        raise RunError(f"compare: found {len(folders)} run, expected two or more, what others are compared with first")
    if twice := {str(folder) for folder in folders if list(map(str, folders)).count(str(folder)) > 1}:
        raise RunError(f"compare: {', '.join(sorted(twice))} is given twice; give each run once")
    reference, *others = (open_runs(folder, name) for folder, name in zip(folders, _names(folders), strict=True))
    found = []
    for rows in others:
        mine, theirs = _paired(rows, reference)
        check_alike(mine, theirs)
        # One model on either side says nothing of other trainings, but test rows can tell the two models apart.
        found.append(compare(mine, theirs, models=len(mine) == len(theirs) == 1))
    corrected = holm([one.p for one in found])
    found = [replace(one, corrected=p) for one, p in zip(found, corrected, strict=True)]
    first = next(row for row in reference if row.headline)
    return Beside(first.headline, first.part, [summarise(rows) for rows in (reference, *others)], found)


def _names(folders: Sequence[str | Path]) -> list[str]:
    """The folders by their last names, or as they were given where those are not all different."""
    last = [Path(folder).name for folder in folders]
    return last if all(last) and len(set(last)) == len(last) else [str(folder) for folder in folders]


def open_runs(folder: str | Path, name: str) -> list[Row]:
    """The rows of a run, of each seed of a run of several, or of each run `seed-…` in a folder, under a name."""
    place = Path(folder)
    if (place / "recipe.yaml").is_file():
        run = RunFolder(place)
        if not run.finished:
            raise RunError(f"{place} is not finished; run `warmstart fit` again to go on with it")
        if not (place / "evidence.json").is_file():
            return [read_row(place, name, run.recipe.seed)]
        place = place / "variants" / ASKED
    runs = sorted((int(path.name.removeprefix("seed-")), path) for path in place.glob("seed-[0-9]*"))
    if not runs:
        raise RunError(f"{place}: no run, and no folder of runs (seed-0, seed-1 …); give what `warmstart fit` wrote")
    rows = [read_row(path, name, seed) for seed, path in runs if (path / "recipe.yaml").is_file()]
    if not any(row.headline for row in rows):
        raise RunError(f"{place}: no run in it came to be measured")
    return rows


def _paired(rows: list[Row], reference: list[Row]) -> tuple[list[Row], list[Row]]:
    """Both sides with the seeds they share; those that share none are paired in order, which is as good by chance."""
    shared = {row.seed for row in rows} & {row.seed for row in reference}
    if shared:
        return [row for row in rows if row.seed in shared], [row for row in reference if row.seed in shared]
    both = list(zip(rows, reference, strict=False))
    return [replace(mine, seed=theirs.seed) for mine, theirs in both], [theirs for _, theirs in both]


def check_alike(rows: Sequence[Row], reference: Sequence[Row]) -> None:
    """Refuse runs that were not measured by the same number on the same rows, naming a row that differs."""
    for mine, theirs in zip(rows, reference, strict=True):
        if not mine.headline or not theirs.headline:  # its training went wrong, and there is nothing to look at
            continue
        if (mine.headline, mine.part) != (theirs.headline, theirs.part):
            said = [f"{row.variant} by {row.headline} on {row.part} rows" for row in (mine, theirs)]
            raise RunError(f"compare: {said[0]}, {said[1]}; expected runs measured alike")
        first, second = (_rows(row) for row in (mine, theirs))
        if first != second:
            raise RunError(f"compare: {_difference(mine, theirs, first, second)}")


def _rows(row: Row) -> list[tuple[str, str]]:
    """Name and line of each measured row, wherever its file stood, and its true answer."""
    path = row.folder / PREDICTIONS[row.part]
    try:
        answers = [str(answer) for answer in read_predictions(path)[1]]
    except RunError:  # a task whose answers are no labels or numbers: the place alone tells
        answers = [""] * len(row.names)
    return list(zip(row.names, answers, strict=True))


def _difference(mine: Row, theirs: Row, first: list[tuple[str, str]], second: list[tuple[str, str]]) -> str:
    names = f"{mine.variant} and {theirs.variant}"
    hint = "expected the same test rows; give both recipes the same data.test, or the same data.split.seed"
    for a, b in zip(first, second, strict=False):
        if a != b:
            said = [f"{place} ({answer})" if answer else place for place, answer in (a, b)]
            return f"{names} were measured on different rows: {said[0]} there, {said[1]} here; {hint}"
    return f"{names} were measured on {len(first):,} and {len(second):,} rows; {hint}"
