"""Every head and every layer of fine-tuned encoders off, as in Kovaleva et al. 2019 and Michel et al. 2019.

    make results-heads [N=seeds] [ARGS="--sets rt-polarity,trec --rows 500 --remove 20"]

Each effect is tested over the rows, and corrected for all heads and layers of a run. Heads are also removed one after
the other, the order chosen on dev rows and told on test rows. What has ended is kept, so that a stopped measurement
goes on where it was.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Iterable
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import kept
from common import ROOT, TINY, finish, write_page
from inspect_sets import PAIRS, SETS, finished_run
from tables import Lines, chosen

SEEDS = 3
WEAK = 0.65
"""The accuracy below which a model of two labels has learned little."""


def measure(name: str, seed: int, rows: int, remove: int, removal_rows: int) -> dict[str, Any]:
    """The figures of one run; single measurements are kept in the cache folder as they end."""
    from warmstart.diagnosis.run_inspector import RunInspector
    from warmstart.evaluation.records.files import as_json

    lines = Lines(f"heads {name}-{seed}")
    inspector = RunInspector(finished_run(name, seed, lines), progress=lines, precision="auto")
    ablation = as_json(inspector.heads_and_layers(rows, remove, removal_rows))
    return {**ablation, "dev_rows": ablation["rows"]["used"], "removal_rows": min(removal_rows, rows)}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of one set say together."""
    heads = [{e["without"]: e for e in run["effects"] if e["kind"] == "head"} for run in runs]
    layers = [{e["without"]: e for e in run["effects"] if e["kind"] != "head"} for run in runs]

    def significant(effects: list[dict[str, Any]], sign: int) -> list[set[str]]:
        return [
            {name for name, e in one.items() if e["p_corrected"] <= 0.05 and sign * e["difference"] > 0}
            for one in effects
        ]

    needed, harmful = significant(heads, -1), significant(heads, 1)
    free = [
        max(
            (step["heads"] for step in run["removal"] if step["row_score"] >= run["removal"][0]["row_score"]), default=0
        )
        for run in runs
    ]
    costs = [
        run["removal"][count]["test_row_score"] - run["removal"][0]["test_row_score"]
        for run, count in zip(runs, free, strict=True)
        if run["removal"] and run["removal"][0]["test_row_score"] is not None
    ]
    correlations = [run["rank_correlation"] for run in runs if run["rank_correlation"] is not None]
    return {
        "headline": mean(math.nan if run["headline"] is None else run["headline"] for run in runs),
        "heads": len(heads[0]),
        "needed": mean(map(len, needed)),
        "needed_by_seed": [sorted(names) for names in needed],
        "layers_in_all": sorted(set.intersection(*significant(layers, -1)), key=_layer),
        "harmful": mean(map(len, harmful)),
        "harmful_in_all": sorted(set.intersection(*harmful)),
        "better_without": mean(sum(e["difference"] > 0 for e in one.values()) for one in heads),
        "layers_needed": mean(map(len, significant(layers, -1))),
        "removed_free": mean(free),
        "test_cost": mean(costs) if costs else None,
        "rank_correlation": mean(correlations) if correlations else None,
        "agreement": _agreement(heads),
    }


def _agreement(heads: list[dict[str, Any]]) -> float | None:
    """The mean rank correlation of what each head's loss changes, over all pairs of seeds."""
    from scipy.stats import spearmanr

    changes = [[effect["difference"] for effect in one.values()] for one in heads]
    found = [spearmanr(*pair).statistic for pair in combinations(changes, 2) if all(len(set(one)) > 1 for one in pair)]
    return mean(map(float, found)) if found else None


def page(by_set: dict[str, list[dict[str, Any]]]) -> str:
    """The page about all sets."""
    sums = {name: summary(runs) for name, runs in by_set.items()}
    columns = ("headline", "needed", "harmful", "better_without", "layers_needed", "removed_free", "test_cost")
    lines = [
        f"| {name} | {len(by_set[name])} | {_rows(by_set[name], 'dev_rows')} | {_rows(by_set[name], 'removal_rows')} | "
        + " | ".join(_number(one[key]) for key in (*columns, "rank_correlation", "agreement"))
        + f" | {_needed(one)} |"
        for name, one in sums.items()
    ]
    together = _over_sets(by_set, sums)
    heats = [f"## {name}\n\n{_heat(runs)}" for name, runs in by_set.items()]
    return "\n".join(
        [LEAD.format(**together).strip(), "", ABOUT.format(**together).strip(), "", *HEADER, *lines, "", *heats]
    )


LEAD = """
Hardly a head is needed by itself: of {heads} heads of a fine-tuned encoder, {needed:.1f} on average beyond chance, and
{free} can be switched off one after the other without any loss on dev rows, which changes the accuracy on test rows by
{cost}. {layers_needed}

![Score of a row over the number of heads that are off, on dev and test rows, a panel for each set](heads.svg)

{partly}"Are Sixteen Heads Really Better than One?" (Michel et al. 2019) removed up to 40% of BERT's heads before much
was lost, and {share:.0%} were tried here: that holds {holds}. {same}That single heads harm,
as Kovaleva et al. 2019 have it, does not show: {harmful:.1f} on average do so beyond chance, after correction for
{tests} tests, though the score is a little better without {better:.0f}. Gradient importance is a weak first guess: its
rank correlation with what is lost is {correlation:.2f}.
"""
ABOUT = """
e5-small (12 layers of 12 heads) is fine-tuned on each set, and every head, the attention of every layer and every
layer is switched off alone. An effect is the change of a row's score on dev rows; it counts as *needed* or *harmful*
if a paired test over rows finds it after Holm's correction over all heads and layers of a run. *Removed free* is how
many heads can be switched off one after the other, each time the one of the 10 least important ones that costs the
least on some of the dev rows (*rows for removal*), before the score on them falls below that of the whole model; *test
cost* is what that changes on as many test rows as there are dev rows. Where the score rises on dev rows and not on
test rows, the choice has found chance. The *rank correlation* is that of gradient importance with what is lost without
each head; the *agreement* is that of two seeds' effects of all heads: near 0, what a head does in one training says
nothing about the next. In the tables below, changes are in points of accuracy, or hundredths of a score of STS-B.

**What cannot be seen.** Among {tests} tests, a head or layer only counts if at least {visible} answers become wrong and
none right: {points} points of accuracy. Smaller effects may be there, as of the layers below. The score of a row of
STS-B, how far its answer is off, shows smaller ones. Of *layers*, each is counted twice: its attention, and all of it.
{weak}
{precisions}
"""
HEADER = (
    "| set | seeds | dev rows | rows for removal | metric | heads needed | heads harmful | better without "
    "| layers needed | removed free | test cost | rank correlation | agreement | heads needed, by seed "
    "| layers needed in all seeds |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
)


def _over_sets(by_set: dict[str, list[dict[str, Any]]], sums: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the sets say together."""

    def over(key: str, names: Collection[str] = SETS) -> float:
        known = [one[key] for name, one in sums.items() if name in names and one[key] is not None]
        return mean(known) if known else math.nan

    runs = [run for several in by_set.values() for run in several]
    classified = [name for name, task in SETS.items() if task == "classify"]
    missing = [f"{name} (seeds: {len(by_set.get(name, ()))})" for name in SETS if len(by_set.get(name, ())) < SEEDS]
    heads, tests = next(iter(sums.values()))["heads"], len(runs[0]["effects"])
    visible = math.ceil(math.log2(2 * tests / 0.05))
    points = sorted({100 * visible / run["dev_rows"] for name in classified for run in by_set.get(name, ())} or {0.0})
    return {
        "heads": heads,
        "needed": over("needed"),
        "free": _range([one["removed_free"] for one in sums.values()]),
        "cost": f"{100 * over('test_cost', classified):+z.1f} points",
        "same": _same(sums.values()),
        "holds": _holds(sums, len(runs[0]["removal"]) - 1),
        "layers_needed": _layers_needed({name: one["layers_needed"] for name, one in sums.items()}, tests - heads),
        "share": mean(len(run["removal"]) - 1 for run in runs) / heads,
        "harmful": over("harmful"),
        "better": over("better_without"),
        "tests": tests,
        "visible": visible,
        "points": " to ".join(f"{one:.1f}" for one in dict.fromkeys((points[0], points[-1]))),
        "correlation": over("rank_correlation"),
        "precisions": _precisions(runs),
        "weak": _weak(sums),
        "partly": f"**Measured in part:** fewer than {SEEDS} seeds of {', '.join(missing)}. " if missing else "",
    }


def _needed(one: dict[str, Any]) -> str:
    """The heads that each seed needs, and the layers that all of them do, as two cells."""
    by_seed = [", ".join(names) or "–" for names in one["needed_by_seed"]]
    heads = "; ".join(by_seed) if any(one["needed_by_seed"]) else "–"
    return f"{heads} | {', '.join(one['layers_in_all']) or '–'}"


def _layer(name: str) -> tuple[bool, int]:
    """Attentions, such as `11.*`, before whole layers, both in the order of the model."""
    return not name.endswith("*"), int(name.partition(".")[0])


def _same(sums: Iterable[dict[str, Any]]) -> str:
    """Whether it is the same heads and layers that every seed needs, where some seed needs a head."""
    layers = any(one["layers_in_all"] for one in sums)
    shared = any(set.intersection(*map(set, one["needed_by_seed"])) for one in sums)
    if shared or not layers:
        return ""
    return "What a head does changes with the seed: none is needed in all seeds of a set, while some layers are. "


def _range(values: list[float]) -> str:
    low, high = round(min(values)), round(max(values))
    return str(low) if low == high else f"{low} to {high}"


def _holds(sums: dict[str, dict[str, Any]], tried: int) -> str:
    """On which sets all heads that were tried can be missed, and how many on the others."""
    fewer = {name: one["removed_free"] for name, one in sums.items() if one["removed_free"] < tried}
    others = ", ".join(f"{count:.0f} heads on {name}" for name, count in fewer.items())
    return f"on {len(sums) - len(fewer)} of {len(sums)} sets" + (f", and for {others}" if fewer else "")


def _layers_needed(by_set: dict[str, float], layers: int) -> str:
    """How many layers each set needs, the most first."""
    some = sorted((name for name in by_set if by_set[name] > 0), key=lambda name: -by_set[name])
    if not some:
        return "No layer is needed by itself, either."
    where = " only where two texts are compared" if set(some) <= set(PAIRS) else ""
    needed = ", ".join(f"{by_set[name]:.1f} by {name}" for name in some)
    return f"Layers are needed{where}: of {layers}, {needed} on average."


def _weak(sums: dict[str, dict[str, Any]]) -> str:
    """Of models that have learned little, that they have."""
    some = [name for name in sums if SETS[name] == "classify" and sums[name]["headline"] < WEAK]
    shares = ", ".join(f"{name}: {sums[name]['headline']:.0%}" for name in some)
    return (
        f"Models that are right on hardly more than half of the rows have little to lose ({shares}).\n" if some else ""
    )


def _precisions(runs: list[dict[str, Any]]) -> str:
    """What the answers were computed in; of runs from before it was kept, fp32."""
    half = sum(run.get("precision", "fp32") == "bf16" for run in runs)
    some = f"The answers of {half} of the {len(runs)} runs were computed in bf16, as the machine had it"
    return f"{some}; within a run, all are in the same precision." if half else "All answers were computed in fp32."


def plot(by_set: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """The score of a row while heads are removed, a panel for each set; the mean over seeds."""
    from warmstart.inspection.plots import draw

    panels = {}
    for name, runs in by_set.items():
        steps = list(zip(*(run["removal"] for run in runs), strict=False))
        panels[name] = {
            part: ([step[0]["heads"] for step in steps], [mean(one[key] for one in step) for step in steps])
            for part, key in (("dev", "row_score"), ("test", "test_row_score"))
        }
    draw(panels, path, "", "heads that are off; score of a row")


def _heat(runs: list[dict[str, Any]]) -> str:
    """The mean change without each head in points, by layer, then without the layer; needed in some seed in bold."""
    effects = [{e["without"]: e for e in run["effects"]} for run in runs]
    places = [name.split(".") for name, e in effects[0].items() if e["kind"] == "head"]
    layers, count = 1 + max(int(layer) for layer, _ in places), 1 + max(int(head) for _, head in places)
    lines = [
        f"| layer | {' | '.join(map(str, range(count)))} | attention | all |",
        "| ---: |" + " ---: |" * (count + 2),
    ]
    for layer in range(layers):
        cells = []
        for name in (*(f"{layer}.{head}" for head in range(count)), f"{layer}.*", f"{layer}"):
            change = f"{100 * mean(one[name]['difference'] for one in effects):+.1f}"
            marked = any(one[name]["p_corrected"] <= 0.05 for one in effects)
            cells.append(f"**{change}**" if marked else change)
        lines.append(f"| {layer} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _rows(runs: list[dict[str, Any]], key: str) -> str:
    """How many rows the runs had, where they differ from the fewest to the most."""
    counts = {run[key] for run in runs}
    return str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if abs(value) < 1.5 else f"{value:.1f}"


def main() -> None:
    """Measure what is missing, then report on all that is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=SEEDS, help=f"seeds (default {SEEDS})")
    parser.add_argument("--sets", default=",".join(SETS), help="sets, with commas between them")
    parser.add_argument("--rows", type=int, default=300, help="dev rows of a run (default 300)")
    parser.add_argument("--remove", type=int, default=58, help="heads to remove one after the other (default 58)")
    parser.add_argument("--removal-rows", type=int, default=60, help="dev rows to choose those by (default 60)")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page in docs/results/")
    args = parser.parse_args()
    figures = kept.read("heads") if args.write else {}
    for seed in range(args.n):
        for name in chosen(args.sets, SETS):
            key = f"{name}-{seed}"
            if key not in figures:
                figures[key] = measure(name, seed, args.rows, args.remove, args.removal_rows)
                if args.write:
                    kept.write("heads", figures)
    by_set = {
        name: runs for name in SETS if (runs := [figures[key] for key in sorted(figures) if key.startswith(f"{name}-")])
    }
    text = page(by_set)
    if args.write and not TINY:
        plot(by_set, ROOT / "docs" / "results" / "heads.svg")
        write_page("heads", "Heads and layers switched off", "make results-heads", text)
    finish({name: summary(runs) for name, runs in by_set.items()})


if __name__ == "__main__":
    main()
