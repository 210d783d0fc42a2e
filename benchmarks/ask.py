"""Rows needed to reach 95% of full accuracy by each way of asking for labels, beside random rows.

    make results-ask [N=seeds] [ARGS="--sets trec,sst5"]

The learner is a logistic regression on frozen features of all-MiniLM-L6-v2, as in `warmstart ask --dry-run`. Features
are kept in .cache/ask/ and the figures of a set and seed as they end, so that a stopped measurement goes on where it
was.
"""

from __future__ import annotations

import argparse
import csv
import math
from statistics import mean
from typing import Any

import numpy as np

import kept
from common import KEPT_WORK, ROOT, TINY, finish, weights, write_page
from tables import Lines, chosen

CACHE = KEPT_WORK / "ask"
DATA = ROOT / ".cache" / "studies" / "data"
SETS = ("trec", "sms_spam", "rt-polarity", "sst5", "banking77", "clinc150")
POOL, FIRST, SHARE = (300, 20, 0.95) if TINY else (5000, 100, 0.95)
"""Rows to ask for, rows of the first round, and the share of the accuracy with all rows that is to be reached."""
SHARES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Shares of full accuracy in the chart."""


def rows_of(name: str, part: str) -> list[dict[str, str]]:
    """The rows of a set, as `studies/prepare.py` writes them."""
    with (DATA / f"{name}-{part}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return rows[:: max(1, len(rows) // 400)] if TINY else rows


def vectors_of(name: str, part: str, texts: list[str]) -> Any:
    """A vector of each text, computed once."""
    from warmstart.inference.features import Extractor

    path = CACHE / "features" / f"{'tiny-' if TINY else ''}{name}-{part}.npy"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, Extractor.load(weights("minilm"), "last", "mean", 128).vectors(texts))
    vectors = np.load(path)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def measure(name: str, seed: int) -> dict[str, Any]:
    """The learning curve of each strategy on one draw of a set."""
    from warmstart.active_learning.simulation import LabelledSet, full_accuracy, round_sizes, simulate
    from warmstart.active_learning.strategies import STRATEGIES

    parts = {}
    for part in ("train", "test"):
        rows = rows_of(name, part)
        vectors, labels = (
            vectors_of(name, part, [row["text"] for row in rows]),
            np.array([row["label"] for row in rows]),
        )
        parts[part] = (vectors, labels)
    drawn = np.random.default_rng(seed).permutation(len(parts["train"][1]))[:POOL]
    data = LabelledSet(parts["train"][0][drawn], parts["train"][1][drawn], *parts["test"])
    full, sizes = full_accuracy(data), round_sizes(FIRST, len(drawn))
    lines = Lines(f"ask {name}-{seed}")
    curves = {}
    for strategy in STRATEGIES:
        curve = simulate(data, strategy, sizes, seed, SHARE * full)
        curves[strategy] = [curve.rows, [round(value, 4) for value in curve.accuracy]]
        lines.log(f"{strategy}: {curve.rows_to(SHARE * full):.0f} rows")
    return {"full": round(full, 4), "pool": len(drawn), "labels": len(set(data.labels.tolist())), "curves": curves}


def rows_needed(figures: dict[str, Any], strategy: str, share: float = SHARE) -> float:
    """How many rows a strategy needed on one draw of a set."""
    from warmstart.active_learning.simulation import LearningCurve

    return LearningCurve(*figures["curves"][strategy]).rows_to(share * figures["full"])


def comparisons(by_set: dict[str, list[dict[str, Any]]], strategies: list[str]) -> dict[tuple[str, str], Any]:
    """By set and strategy, the logarithm of the rows needed as a share of those by random rows, over seeds."""
    from warmstart.evaluation.statistics import difference_over_seeds

    return {
        (name, strategy): difference_over_seeds(
            [math.log(rows_needed(one, strategy)) for one in runs],
            [math.log(rows_needed(one, "random")) for one in runs],
        )
        for name, runs in by_set.items()
        for strategy in strategies
    }


def summary(by_set: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What each strategy needs over all sets, the fewest rows first."""
    from warmstart.evaluation.statistics import holm, over_seeds

    strategies = [name for name in next(iter(by_set.values()))[0]["curves"] if name != "random"]
    found = comparisons(by_set, strategies)
    corrected = dict(zip(found, holm([one.p for one in found.values()]), strict=True))
    overall = {}
    for strategy in strategies:
        over = over_seeds([found[name, strategy].mean for name in by_set])
        sure = {name: found[name, strategy].mean for name in by_set if corrected[name, strategy] <= 0.05}
        overall[strategy] = {
            "ratio": math.exp(over.mean),
            "low": math.exp(over.low),
            "high": math.exp(over.high),
            "fewer": sorted(name for name, value in sure.items() if value < 0),
            "more": sorted(name for name, value in sure.items() if value > 0),
        }
    order = sorted(overall, key=lambda strategy: overall[strategy]["ratio"])
    return {"overall": {name: overall[name] for name in order}, "single": found, "corrected": corrected}


def page(by_set: dict[str, list[dict[str, Any]]]) -> str:
    """The page: the conclusion, the chart and the tables."""
    found = summary(by_set)
    overall, seeds = found["overall"], min(map(len, by_set.values()))
    lines = [conclusion(overall, len(by_set)), "", "![Rows needed over the share of full accuracy, a line for each way "
             "of asking, a panel for each set](ask.svg)", "", ABOUT.format(seeds=seeds, pool=POOL, first=FIRST).strip(),
             "", "## All sets", "", *OVERALL]  # fmt: skip
    for strategy, one in overall.items():
        lines.append(
            f"| {strategy} | {one['ratio']:.2f} ({one['low']:.2f} to {one['high']:.2f}) | "
            f"{', '.join(one['fewer']) or '–'} | {', '.join(one['more']) or '–'} |"
        )
    lines += ["", "## Each set", "", *EACH]
    for name, runs in by_set.items():
        needed = mean(rows_needed(one, "random") for one in runs)
        full = 100 * mean(one["full"] for one in runs)
        lines.append(f"| {name} | {runs[0]['labels']} | {full:.1f} | random | {needed:,.0f} | – | – |")
        for strategy in overall:
            one, p = found["single"][name, strategy], found["corrected"][name, strategy]
            ratio = f"{math.exp(one.mean):.2f} ({math.exp(one.low):.2f} to {math.exp(one.high):.2f})"
            shown = f"**{p:.3f}**" if p <= 0.05 else f"{p:.3f}"
            needed = mean(rows_needed(run, strategy) for run in runs)
            lines.append(f"| | | | {strategy} | {needed:,.0f} | {ratio} | {shown} |")
    return "\n".join(lines)


def conclusion(overall: dict[str, Any], sets: int) -> str:
    """What the figures come to, in plain words."""
    best, one = next(iter(overall.items()))
    beyond = one["high"] < 1
    if not beyond:
        return (
            f"**No way of asking beats random rows beyond the interval over these {sets} sets.** The best, {best}, "
            f"needs {one['ratio']:.2f} times as many rows ({one['low']:.2f} to {one['high']:.2f})."
        )
    worse = [name for name, other in overall.items() if other["ratio"] > 1]
    text = (
        f"**Asking by {best} reaches 95% of full accuracy with {one['ratio']:.2f} times as many rows as random rows "
        f"({one['low']:.2f} to {one['high']:.2f} over {sets} sets).** With Holm's correction, that is sure on "
        f"{len(one['fewer'])} of the {sets} sets taken alone."
    )
    if worse:
        text += f" On average, {' and '.join(worse)} needed more rows than random ones."
    return text


ABOUT = """
From each set, {pool:,} training rows are drawn ({seeds} seeds; fewer rows where the set has fewer). The first {first}
labelled rows are random and the same for every way of asking; each further round asks for {first}, or for a fifth of
those that are labelled where that is more. The learner is a logistic regression on frozen features of all-MiniLM-L6-v2;
*full* is its accuracy on the test rows with all rows labelled. A ratio is the number of rows needed, divided by that
of random rows with the same seed: geometric means with 95% intervals, over sets in the first table and over seeds in
the second. p is that of a paired t test over seeds, corrected by Holm over all rows of the table. Disagreement is that
of 3 models, each fitted to another resample of the labelled rows. A learner that is fine-tuned may gain more or less.
"""
OVERALL = (
    "| strategy | rows, of those by random | surely fewer on | surely more on |",
    "| --- | ---: | --- | --- |",
)
EACH = (
    "| set | labels | full accuracy, % | strategy | rows needed | of those by random | p (Holm) |",
    "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
)


def picture(by_set: dict[str, list[dict[str, Any]]]) -> None:
    """Rows needed over the share of full accuracy, for each set."""
    from warmstart.inspection.plots import draw

    panels = {
        name: {
            strategy: (
                [100 * share for share in SHARES],
                [mean(rows_needed(one, strategy, share) for one in runs) for share in SHARES],
            )
            for strategy in runs[0]["curves"]
        }
        for name, runs in by_set.items()
    }
    draw(panels, ROOT / "docs" / "results" / "ask.svg", "", "share of full accuracy, %")


def main() -> None:
    """Measure what is missing, then report on all that is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5, help="seeds (default 5)")
    parser.add_argument("--sets", default=",".join(SETS), help="sets, with commas between them")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page in docs/results/")
    args = parser.parse_args()
    figures = kept.read("ask") if args.write else {}
    for name in chosen(args.sets, SETS):
        for seed in range(args.n):
            if f"{name}-{seed}" not in figures:
                figures[f"{name}-{seed}"] = measure(name, seed)
                if args.write:
                    kept.write("ask", figures)
    by_set = {name: [figures[key] for key in sorted(figures) if key.rpartition("-")[0] == name] for name in SETS}
    by_set = {name: runs for name, runs in by_set.items() if runs}
    if args.write and not TINY:
        picture(by_set)
        write_page("ask", "Rows chosen for labelling, beside random rows", "make results-ask", page(by_set))
    found = summary(by_set)["overall"]
    finish({name: {key: one[key] for key in ("ratio", "fewer", "more")} for name, one in found.items()})


if __name__ == "__main__":
    main()
