"""Every task on real data, beside a peer: the same encoder, rows and budget with transformers or sentence-transformers
alone. A part of each set with several seeds, both sides; and, by `--sizes full`, the whole of it once, our side alone.

Runs are in .cache/tasks/ and the figures of each in docs/results/figures/tasks.json, so a stopped measurement goes on
where it was, several processes may share the work, and the page is written from the figures that are there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import kept
from common import ROOT, finish, write_page
from forest import forest
from tables import Lines, chosen, errors_told
from task_peers import NUMBERS, PEERS
from task_sets import CACHE, SETS, folder_of

SIZES = {"part": 3, "full": 1}
"""Seeds of each size."""


def recipe_of(name: str, size: str) -> dict[str, Any]:
    """The settings of a set, which both sides share."""
    one = SETS[name]
    changes = one.whole if size == "full" else {}
    return {"model": folder_of(one.model), "task": one.task, **one.files(size), **NUMBERS, **one.recipe, **changes}


def train(name: str, size: str, seeds: int) -> None:
    """What is missing of a set, seed by seed; of a part both sides, since one run of a whole set has no interval."""
    there = {seed for seed, *_ in found(name, size)}
    for seed in range(seeds):
        if seed not in there:
            figures = {"seed": seed, "settings": asked_for(name, size), "warmstart": _ours(name, size, seed)}
            figures["peer"] = _theirs(name, seed) if size == "part" else {}
            kept.write("tasks", {**kept.read("tasks"), f"{name}-{size} {seed}": figures})


def asked_for(name: str, size: str) -> str:
    """The settings of a set, as kept figures name them."""
    return kept.settings(recipe_of(name, size))


def _ours(name: str, size: str, seed: int) -> dict[str, Any]:
    """The metrics of our side."""
    from warmstart.experiments.repeat import repeat

    where = f"{name}-{size}"
    rows = repeat(recipe_of(name, size), {"warmstart": {}}, [seed], CACHE / where, Lines(where), keep="numbers")
    return rows[0].metrics["test"]


def _theirs(name: str, seed: int) -> dict[str, Any]:
    """The metrics of the peer on a part, trained in a process of its own, which inherits no random state."""
    path = CACHE / f"{name}-part" / "peer" / f"seed-{seed}.json"
    if not path.is_file():
        asked = json.dumps([SETS[name].peer, {**recipe_of(name, "part"), "seed": seed}, str(path)])
        subprocess.run([sys.executable, __file__, "--peer", asked], check=True)
    return json.loads(path.read_text(encoding="utf-8"))


def peer(asked: str) -> None:
    """One training of a peer, its metrics written where they are looked for."""
    name, said, path = json.loads(asked)
    found = PEERS[name](said)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(found) + "\n", encoding="utf-8")


def found(name: str, size: str) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Seed, our metrics and the peer's, which a whole set has none of."""
    asked = asked_for(name, size)
    kept_here = [one for key, one in kept.read("tasks").items() if key.rpartition(" ")[0] == f"{name}-{size}"]
    return [(one["seed"], one["warmstart"], one["peer"]) for one in kept_here if one["settings"] == asked]


def page(measured: dict[tuple[str, str], list[Any]]) -> str:
    """The page's body: one table of parts, one of whole sets."""
    lines = [READING.strip()]
    titles = {"part": "## A part of each dataset, several seeds", "full": "## Each dataset once, at its full size"}
    for size, title in titles.items():
        sides = ["warmstart", "peer", "difference"] if size == "part" else ["warmstart"]
        if any(which[1] == size for which in measured):
            chart = ["", CHART] if size == "part" else []
            names = ["dataset", "task", "encoder", "metric", *sides, "published"]
            lines += ["", title, *chart, "", f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]
            for (name, of), rows in measured.items():
                lines += _lines(name, rows, of) if of == size else []
    return "\n".join(lines)


def _lines(name: str, rows: list[Any], size: str) -> list[str]:
    from warmstart.evaluation.statistics import difference_over_seeds, over_seeds

    one = SETS[name]
    lines = []
    for number, metric in enumerate(one.metrics):
        ours = [row[1][metric] for row in rows]
        cells = [_number(over_seeds(ours))]
        if size == "part":
            theirs = [row[2][metric] for row in rows]
            cells += [_number(over_seeds(theirs)), _number(difference_over_seeds(ours, theirs), "+")]
        about = (one.about, one.task, one.model) if number == 0 else ("", "", "")
        lines.append(f"| {' | '.join([*about, metric, *cells, '' if number else one.published])} |")
    return lines


def picture(measured: dict[tuple[str, str], list[Any]]) -> None:
    """How far warmstart is ahead of the peer on a part of each dataset, by its first metric."""
    from warmstart.evaluation.statistics import difference_over_seeds

    ahead = {}
    for (name, size), rows in measured.items():
        one = SETS[name]
        if size == "part":
            sides = ([row[side][one.metrics[0]] for row in rows] for side in (1, 2))
            ahead[f"{one.about.partition(',')[0]}, {one.metrics[0]}"] = difference_over_seeds(*sides)
    label = "points ahead of the peer (95% interval over seeds)"
    forest(ahead, ROOT / "docs" / "results" / "tasks.svg", label, most=FARTHEST)


def _number(estimate: Any, sign: str = "") -> str:
    half = f" ± {100 * (estimate.high - estimate.mean):.1f}" if estimate.count > 1 else ""
    return f"{100 * estimate.mean:{sign}.1f}{half} ({estimate.count})"


CHART = (
    "![How far warmstart is ahead of the peer on a part of each dataset, with 95% intervals over seeds: all but "
    "those of SemEval and patient contain zero](tasks.svg)"
)
FARTHEST = 50
READING = """
Trained alike, warmstart and its peer differ by less than seeds do on most datasets; on SemEval, where our head reads
the marked entities, warmstart is far ahead, and in exact match on QuAC it is slightly behind.

Each task of `warmstart fit` compared with what one would write with `transformers` or `sentence-transformers` alone,
the peer (`benchmarks/task_peers.py`): with the same encoder, rows, learning rate, batch size, epochs, schedule and
precision. Numbers are percentages; each mean is followed by its 95% confidence interval over seeds and, in
parentheses, the number of seeds. The figures of each run are in `docs/results/figures/tasks.json`. Published figures
are those of other encoders, trained on the whole datasets: they give an idea of the range, but are not directly
comparable.

The encoder e5-small was pretrained on public pairs of sentences and questions, so figures on STS-B, QuAC, XQuAD and
WikiQA are not those of an encoder that never saw such text. It has no Japanese words in its vocabulary: `patient` is
read character by character. JCommonsenseQA is learned by a small model with random initial weights, without any
pretraining, only to show that the task works from end to end. For `span`, attention dropout is turned off for both: on
a CPU it takes two thirds of the time in windows of 384 tokens.

The parts are: 500 sentences of CoNLL-2003, 1,000 of WNUT-17, 100 first questions of QuAC, 16 of 48 articles of XQuAD,
1,000 pairs of STS-B, 1,001 sentences of SemEval, 2,000 queries of patient, 40 of Cranfield, 1,000 questions of
JCommonsenseQA, and all of WikiQA. The whole datasets have batch sizes and numbers of epochs of their own
(`benchmarks/task_sets.py`), and were trained with warmstart only; that of XQuAD is 32 articles, with three seeds. QuAC
was not measured as a whole.

How to read the tables: with so few rows, seeds differ more than warmstart and the peer do. On WNUT-17, the three seeds
give F1 22.3, 22.9 and 30.5 with warmstart, and 37.5, 21.9 and 19.4 with the peer: in 500 steps it is luck whether the
rarer types are learned at all. Length-grouped batches are not the reason: with random batches, seed 0 gives 23.8
instead of 22.3. One seed of the peer learns next to nothing on STS-B. On SemEval, the heads read different tokens: the
peer's reads the first token, like that of any classifier; ours reads the marked entities. Where the mean of the peer
is higher (WNUT-17, Cranfield), the interval of the difference contains zero; the exception is exact match on QuAC, by
two or three of its 150 answers.

On QuAC, the two differ only in the order of the batches: with `training.batching: random`, warmstart gives the peer's
figures run for run (six seeds: F1 30.3 and 30.4, exact match 10.9 and 11.2). Length-grouped batches cost more as long
as each window of a passage counted by its own length (F1 26.4 ± 4.8, exact match 9.9 ± 1.2): nine in ten windows of
fewer than 200 tokens contain no answer, so a fifth of the batches taught nothing but "no answer". Now all windows of a
passage count as long as its longest, and F1 equals that of the peer; the table shows this version.
"""
"""What stands above the tables; written by hand after looking at them."""


def main() -> None:
    """Train what is missing, then report on all that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=None, help="seeds (default 3 of a part, 1 of a whole set)")
    parser.add_argument("--sets", default="", help=f"some of {','.join(SETS)} (default all)")
    parser.add_argument("--sizes", default="", help="part, full or both (default both)")
    parser.add_argument("--no-train", action="store_true", help="report on the figures that are there")
    parser.add_argument("--write", action="store_true", help="write docs/results/tasks.md")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        peer(args.peer)
        return
    sizes, sets = chosen(args.sizes, SIZES), chosen(args.sets, SETS)
    wanted = [(name, size) for size in sizes for name in sets if size in SETS[name].sizes]
    if not args.no_train:
        with errors_told():
            for name, size in wanted:
                train(name, size, args.n or SIZES[size])
    all_ = ((name, size) for size in SIZES for name in SETS if size in SETS[name].sizes)
    measured = {which: rows for which in all_ if (rows := found(*which))}
    if args.write:
        picture(measured)
        write_page("tasks", "Every task beside a peer", "make results-tasks", page(measured))
    finish({f"{name} {size}": _brief(SETS[name].metrics[0], rows) for (name, size), rows in measured.items()})


def _brief(metric: str, rows: list[Any]) -> dict[str, Any]:
    sides = {
        side: [row[place][metric] for row in rows] for place, side in ((1, "warmstart"), (2, "peer")) if rows[0][place]
    }
    return {
        "metric": metric,
        **{side: round(sum(all_) / len(all_), 4) for side, all_ in sides.items()},
        "seeds": len(rows),
    }


if __name__ == "__main__":
    main()
