"""Accuracy against speed and size of fine-tuned encoders with fewer blocks and tokens, and the point the gate takes.

    make results-shrink [N=seeds] [ARGS="--sets trec"]

Runs of TREC and rt-polarity are those of `heads.py`, kept in .cache/inspect/; that of CoNLL-2003 is trained here. The
figures of a run are kept as they end, so that a stopped measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from pathlib import Path
from statistics import mean
from typing import Any

import kept
from common import KEPT_WORK, ROOT, TINY, finish, write_page
from distil import conll
from fitted import fit_once
from inspect_sets import encoder, finished_run
from tables import Lines, chosen

CACHE = KEPT_WORK / "shrink"
TASKS = ("trec", "rt-polarity", "conll2003")
"""Sets whose rows have a score from 0 to 1."""
SENTENCES = {"train": 1000, "test": 1500}
"""Of CoNLL-2003; a tenth of the training sentences is the dev part."""
SHARES = (1 / 6, 1 / 3, 1 / 2, 2 / 3)
"""Shares of the blocks that are removed for the curve."""
MIN_RATIO = 0.99
SEEDS = 3


def measure(name: str, seed: int) -> dict[str, Any]:
    """The whole model and each smaller one: score on dev and test, texts per second, size."""
    from warmstart.evaluation.run import RunFolder
    from warmstart.pipeline.prepare import read_rows
    from warmstart.shrinking.record import ShrinkOptions
    from warmstart.shrinking.shrink_run import shrink_run
    from warmstart.storage.cache import cache_folder

    lines = Lines(f"shrink {name}-{seed}")
    run = RunFolder(_tagger(seed, lines) if name == "conll2003" else finished_run(name, seed, lines))
    test = read_rows(run.recipe, cache_folder(), lines).tables["test"]
    points = [{"removed": 0, **_point(run.folder, test), "passed": True}]
    count = points[0]["blocks"]
    for removed in dict.fromkeys(max(1, round(share * count)) for share in SHARES):
        out = CACHE / f"{'tiny-' if TINY else ''}{name}-{seed}-without-{removed}"
        if not out.is_dir():
            # A gate that anything passes: the curve shows what the real one would have refused.
            shrink_run(run, out, ShrinkOptions(1e-9, removed), progress=lines)
        points.append({"removed": removed, **_point(out, test), **_judged(run, out)})
        lines.log(f"without {removed} blocks: {points[-1]['test']:.4f}")
        if not TINY:
            continue
        shutil.rmtree(out)
    return {"points": points}


def _tagger(seed: int, lines: Lines) -> Path:
    """A run of CoNLL-2003 by the defaults, trained where it is not there yet."""
    folder = CACHE / "runs" / f"{'tiny-' if TINY else ''}conll2003-{seed}"
    fields: dict[str, Any] = {"task": "tag", "data.columns.words": "words", "data.split.dev": 0.1, "data.split.seed": 0}
    for (part, count), rows in zip(SENTENCES.items(), conll(), strict=True):
        path = CACHE / "data" / f"{'tiny-' if TINY else ''}conll2003-{part}.jsonl"
        some = random.Random(0).sample(rows, 60 if TINY else count)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")  # the same for every seed
        fields[f"data.{part}"] = str(path)
    training = {"training": {"max_steps": 4}} if TINY else {}
    return fit_once(folder, lines, model=encoder(), seed=seed, **fields, **training)


def _point(folder: Path, test: Any) -> dict[str, Any]:
    """A model's score on test rows, its size, and how many texts it answers in a second."""
    from warmstart.evaluation.evaluate import predict_rows
    from warmstart.inference.predictor import Predictor

    predictor = Predictor.load(folder)
    predictor.predict(["a text to begin with"] if not predictor.task.pair else [("one", "other")])
    started = time.process_time()
    columns, answers = predict_rows(predictor, test)
    seconds = time.process_time() - started
    scores = type(predictor.task).row_scores(predictor.task.options, columns, answers)
    model = predictor.engine.model  # type: ignore[attr-defined]
    return {
        "test": float(mean(map(float, scores))),
        "texts_per_second": len(test) / seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokens": len(predictor.tokenizer),
        "blocks": model.config.num_hidden_layers,
    }


def _judged(run: Any, out: Path) -> dict[str, Any]:
    """Whether the gate of 0.99 would have kept the model, by the scores in its manifest's record."""
    from warmstart.inference.predictor import Predictor
    from warmstart.inspection.ablation import Ablations
    from warmstart.pipeline.prepare import read_rows
    from warmstart.runtime.progress import silent
    from warmstart.shrinking.gate import judge
    from warmstart.storage.cache import cache_folder

    dev = list(read_rows(run.recipe, cache_folder(), silent).tables["dev"].dicts())
    scores = [Ablations(Predictor.load(folder), dev).measure().scores for folder in (run.folder, out)]
    gate = judge(*scores, MIN_RATIO)
    return {"dev": gate.smaller, "ratio": gate.ratio, "low": gate.low, "passed": gate.passed}


def page(by_set: dict[str, list[dict[str, Any]]]) -> str:
    """The page about all sets."""
    chart = (
        "![Share of the score that is left over the speed, a line for each set; few points pass the gate](shrink.svg)"
    )
    lines = [conclusion(by_set), *in_part(by_set), "", chart, "", ABOUT.strip(), "", *HEADER]
    for name, runs in by_set.items():
        for number in range(min(len(run["points"]) for run in runs)):
            some = tuple(run["points"][number] for run in runs)
            speed, size = (mean(_of_whole(runs, some, what)) for what in ("texts_per_second", "parameters"))
            passed, test = sum(one["passed"] for one in some), mean(one["test"] for one in some)
            first = some[0]
            lines.append(
                f"| {name} | {first['blocks']} | {first['tokens']:,} | {test:.4f} | {speed:.2f} | {size:.2f} | "
                f"{passed} of {len(some)} |"
            )
    return "\n".join(lines)


def conclusion(by_set: dict[str, list[dict[str, Any]]]) -> str:
    """What the figures come to, in plain words."""
    taken = [max(p["removed"] for p in run["points"] if p["passed"]) for runs in by_set.values() for run in runs]
    count = next(iter(by_set.values()))[0]["points"][0]["blocks"]
    return (
        f"**The gate of {MIN_RATIO} lets {mean(taken):.1f} of {count} blocks go on average ({min(taken)} to "
        f"{max(taken)} over {len(taken)} runs)**."
    )


def in_part(by_set: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What is not measured yet, if anything is."""
    missing = [name for name in TASKS if name not in by_set]
    seeds = min(map(len, by_set.values()))
    if not missing and seeds >= SEEDS:
        return []
    sets = f"; {', '.join(missing)} not at all" if missing else ""
    return ["", f"**Measured in part**: {seeds} of {SEEDS} seeds{sets}."]


ABOUT = """
e5-small is fine-tuned on each set; then blocks are removed by measured importance and tokens that the set does not use,
and the rest is trained back by the same recipe. Speed is that of CPU seconds on the test rows, and size the number of
parameters, both as a share of the whole model's. The score is accuracy, for CoNLL-2003 (1,000 sentences to learn from,
1,500 to test on) the mean F1 of a sentence. *Passed* counts the seeds whose score on dev rows is surely at least
0.99 of the original's.
"""
COLORS = ("#3b528b", "#21918c", "#d95f02")
HEADER = (
    "| set | blocks | tokens | score on test | speed | size | passed |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
)


def picture(by_set: dict[str, list[dict[str, Any]]]) -> None:
    """The share of the score that is left over the speed, with the number of blocks at each point."""
    from warmstart.experiments.sweep_plots import new_figure, save_figure

    figure, axes = new_figure(7.5, 4)
    for (name, runs), color in zip(by_set.items(), COLORS, strict=False):
        points = list(zip(*(run["points"] for run in runs), strict=True))
        speeds = [mean(_of_whole(runs, some, "texts_per_second")) for some in points]
        scores = [mean(_of_whole(runs, some, "test")) for some in points]
        axes.plot(speeds, scores, color=color, label=name)
        for speed, score, some in zip(speeds, scores, points, strict=True):
            passed = all(one["passed"] for one in some)
            axes.plot(speed, score, "o", color=color, markerfacecolor=color if passed else "white")
            axes.annotate(str(some[0]["blocks"]), (speed, score), (5, 5), textcoords="offset points", fontsize=8)
    axes.set_xlabel("times as fast as the whole model (numbers: blocks; filled: passes the gate)")
    axes.set_ylabel("score on test, share of the whole model's")
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, ROOT / "docs" / "results" / "shrink.svg")


def _of_whole(runs: list[dict[str, Any]], some: tuple[dict[str, Any], ...], what: str) -> list[float]:
    """A figure of a point of each run, as a share of that of its whole model."""
    return [one[what] / run["points"][0][what] for run, one in zip(runs, some, strict=True)]


def main() -> None:
    """Measure what is missing, then report on all that is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=SEEDS, help=f"seeds (default {SEEDS})")
    parser.add_argument("--sets", default=",".join(TASKS), help="sets, with commas between them")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page in docs/results/")
    args = parser.parse_args()
    figures = kept.read("shrink") if args.write else {}
    for seed in range(args.n):
        for name in chosen(args.sets, TASKS):
            if f"{name}-{seed}" not in figures:
                figures[f"{name}-{seed}"] = measure(name, seed)
                if args.write:
                    figures |= kept.read("shrink")  # another process may measure other sets
                    kept.write("shrink", figures)
    by_set = {name: [figures[key] for key in sorted(figures) if key.rpartition("-")[0] == name] for name in TASKS}
    by_set = {name: runs for name, runs in by_set.items() if runs}
    if args.write and not TINY:
        picture(by_set)
        write_page("shrink", "Fewer blocks and tokens", "make results-shrink", page(by_set))
    finish({name: runs[0]["points"] for name, runs in by_set.items()})


if __name__ == "__main__":
    main()
