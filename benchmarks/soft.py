"""Soft against hard labels where the truth is soft: annotators' votes drawn from a known distribution of each row.

    make results-soft [N=seeds] [ARGS="--sets sst5 --votes 3"]

The known distributions are those of a logistic regression on features of e5-small, each row's by a fit without it.
Votes are drawn from them; a head on frozen all-MiniLM-L6-v2 learns the shares of the votes, or the label that most
votes have. What has ended is kept, so that a stopped measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import sys
from collections import Counter
from statistics import mean
from typing import Any

import numpy as np

import kept
from common import KEPT_WORK, ROOT, TINY, finish, weights, write_page
from forest import forest
from tables import Lines, chosen

if TINY:
    sys.path.insert(0, str(ROOT / "tests"))
CACHE = KEPT_WORK / ("soft-tiny" if TINY else "soft")
DATA = ROOT / ".cache" / "studies" / "data"
SETS, VOTES = ("rt-polarity", "sst5"), ("3", "5")
ROWS = {"train": 60, "test": 40} if TINY else {"train": 400, "test": 300}
TRAINING = {"learning_rate": 1e-2, "epochs": 2 if TINY else 30, "batch_size": 32, "precision": "fp32"}
MEASURES = {"accuracy": (100, "accuracy"), "ece": (100, "ECE"), "brier": (1, "Brier"), "kl": (1, "KL")}
"""Each measure, how it is scaled in the tables, and its name there. All but accuracy are better if they are less."""


def texts_of(name: str) -> dict[str, list[dict[str, str]]]:
    """Training and test rows of a set, the same for every seed."""
    if TINY:
        from small import reviews

        drawn = {"train": reviews(ROWS["train"]), "test": reviews(ROWS["test"], 1000)}
        return {part: [{"text": text, "label": label} for text, label in rows] for part, rows in drawn.items()}
    parts = {}
    for part, count in ROWS.items():
        with (DATA / f"{name}-{part}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        parts[part] = random.Random(f"{name} {part}").sample(rows, count)
    return parts


def truth(name: str) -> tuple[list[str], dict[str, list[dict[str, Any]]]]:
    """The labels of a set, and its rows with the distribution that each row's votes are drawn from."""
    path = CACHE / f"{name}.json"
    if not path.is_file():
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_predict
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        from warmstart.inference.features import Extractor

        rows = [{**row, "part": part} for part, drawn in texts_of(name).items() for row in drawn]
        vectors = Extractor.load(_encoder("e5-small"), "last", "mean", 128).vectors([row["text"] for row in rows])
        labels = [row["label"] for row in rows]
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
        shares = cross_val_predict(model, vectors, labels, cv=5, method="predict_proba")
        made = {
            part: [
                {"text": row["text"], "truth": [round(float(share), 6) for share in own]}
                for row, own in zip(rows, shares, strict=True)
                if row["part"] == part
            ]
            for part in ROWS
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([sorted(set(labels)), made]), encoding="utf-8")
    labels, parts = json.loads(path.read_text(encoding="utf-8"))
    return labels, parts


def measure(name: str, votes: int, seed: int) -> dict[str, Any]:
    """How the two ways of learning from one draw of votes do."""
    labels, parts = truth(name)
    drawn = random.Random(f"{name} {votes} {seed}")
    rows = [(row["text"], drawn.choices(labels, row["truth"], k=votes)) for row in parts["train"]]
    ways = {
        "soft": [{"text": text, "votes": given} for text, given in rows],
        "hard": [{"text": text, "label": _majority(given, drawn)} for text, given in rows],
    }
    right = np.array([row["truth"] for row in parts["test"]])
    right = right / right.sum(axis=1, keepdims=True)
    figures: dict[str, Any] = {way: _learned(f"{name}-{votes}-{seed}-{way}", made, labels, parts["test"], right, seed)
                               for way, made in ways.items()}  # fmt: skip
    figures["split"] = mean(len(set(given)) > 1 for _, given in rows)
    figures["top"] = float(right.max(axis=1).mean())
    return figures


def _learned(
    key: str, rows: list[dict[str, Any]], labels: list[str], test: list[dict[str, Any]], right: Any, seed: int
) -> dict[str, float]:
    """A model learned from rows, measured against the known distributions."""
    import warmstart
    from warmstart.diagnosis.calibration import reliability
    from warmstart.tasks.shared.metrics import distributions

    path, out = CACHE / f"{key}.jsonl", CACHE / "runs" / key
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    answer = "votes" if "votes" in rows[0] else "label"
    run = warmstart.fit(
        model=_encoder("minilm"),
        task="classify",
        out=out,
        seed=seed,
        layers={"freeze": "encoder"},
        training=TRAINING,
        progress=Lines(key),
        **{"data.train": str(path), f"data.columns.{answer}": answer, "data.split.test": 0},
    )
    answers = run.predict([row["text"] for row in test])
    given = np.array([[answer["probabilities"][label] for label in labels] for answer in answers])
    shutil.rmtree(out)
    first = given.argmax(axis=1)
    expected = right[np.arange(len(first)), first]
    return {
        "accuracy": float((first == right.argmax(axis=1)).mean()),
        "ece": reliability(given.max(axis=1), expected).ece,
        **distributions(right, given),
    }


def _majority(votes: list[str], drawn: random.Random) -> str:
    """The label that most votes have; of several, one at random."""
    counts = Counter(votes)
    return drawn.choice(sorted(label for label, count in counts.items() if count == max(counts.values())))


def _encoder(name: str) -> str:
    if TINY:
        from tiny import save_tiny

        return str(save_tiny(CACHE / "tiny-encoder"))
    return weights(name)


def differences(figures: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
    """By set, number of votes and measure: what soft labels change, over seeds, with p corrected for all of them."""
    from dataclasses import replace

    from warmstart.evaluation.statistics import difference_over_seeds, holm

    singly = {
        (*group.split(), measured): difference_over_seeds(
            [run["soft"][measured] for run in runs], [run["hard"][measured] for run in runs]
        )
        for group, runs in _groups(figures).items()
        for measured in MEASURES
    }
    corrected = holm([one.p for one in singly.values()])
    return {key: replace(one, p=p) for (key, one), p in zip(singly.items(), corrected, strict=True)}


def _groups(figures: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The runs of each set and number of votes."""
    names = sorted({key.rpartition(" ")[0] for key in figures})
    return {group: [run for key, run in sorted(figures.items()) if key.rpartition(" ")[0] == group] for group in names}


def page(figures: dict[str, Any]) -> str:
    """The page: what held, the tables, and how it was measured."""
    changes = differences(figures)
    lines = [conclusion(changes), "", CHART, "", *HEADER]
    for group, runs in _groups(figures).items():
        for measured, (scale, title) in MEASURES.items():
            change = changes[(*group.split(), measured)]
            soft, hard = (scale * mean(run[way][measured] for run in runs) for way in ("soft", "hard"))
            digits = 1 if scale == 100 else 3
            span = f"{scale * change.low:+.{digits}f} to {scale * change.high:+.{digits}f}"
            p = "< 0.001" if change.p < 0.001 else f"{change.p:.3f}"
            p = f"**{p}**" if change.p <= 0.05 else p
            lines.append(
                f"| {' | '.join(group.split())} | {title} | {hard:.{digits}f} | {soft:.{digits}f} | "
                f"{scale * change.mean:+.{digits}f} ({span}) | {p} |"
            )
    facts = "; ".join(
        f"{group.split()[0]} with {group.split()[1]} votes: {100 * mean(run['split'] for run in runs):.0f}% of the "
        f"rows have votes for several labels, and the most probable label has {100 * runs[0]['top']:.0f}% on average"
        for group, runs in _groups(figures).items()
    )
    seeds = min(map(len, _groups(figures).values()))
    return "\n".join([*lines, "", ABOUT.format(seeds=seeds, facts=facts, **ROWS).strip()])


def conclusion(changes: dict[tuple[str, str, str], Any]) -> str:
    """What the figures come to, in plain words."""
    cases = len(changes) // len(MEASURES)
    better, worse = [], []
    for measured, (_, title) in MEASURES.items():
        sign = 1 if measured == "accuracy" else -1
        sure = [sign * one.mean > 0 for key, one in changes.items() if key[2] == measured and one.p <= 0.05]
        better.append(f"{title} in {sum(sure)} of {cases}")
        worse += [f"{title} in {sure.count(False)}"] if False in sure else []
    return (
        "Where annotators disagree, learning the shares of their votes instead of the majority label is significantly "
        f"better by {', by '.join(better)} comparisons, and worse by {', by '.join(worse) or 'none'}."
    )


def picture(figures: dict[str, Any]) -> None:
    """What soft labels change by each measure in points, a line for each set and number of votes."""
    changes = {
        f"{MEASURES[measured][1]}, {name}, {votes} votes": change
        for (name, votes, measured), change in sorted(
            differences(figures).items(), key=lambda item: list(MEASURES).index(item[0][2])
        )
        if measured in ("accuracy", "ece")
    }
    forest(
        changes, ROOT / "docs" / "results" / "soft-labels.svg", "points, soft − hard (mean, 95% interval over seeds)"
    )


CHART = (
    "![What soft labels change, in points with 95% intervals over seeds: the calibration error falls in all four "
    "cases, accuracy clearly rises in one](soft-labels.svg)"
)
ABOUT = """
Accuracy and the expected calibration error (ECE) are in points; for ECE, Brier score and Kullback-Leibler divergence,
less is better. Differences are soft − hard, with their 95% interval over {seeds} seeds, which draw other votes and
train from another start; p is corrected for all comparisons of the table (Holm), and bold where it is at most 0.05.

The truth is known by construction: the distribution of a row's votes is what a logistic regression on features of
e5-small, fitted to the original labels of other rows, gives it. {facts}. A head on the frozen all-MiniLM-L6-v2 learns
{train} rows for 30 epochs from their votes ([soft](../howto/soft-labels.md#votes)) or from the label that most votes
have, ties broken at random (hard). {test} test rows are compared with the known distribution: accuracy with its most
probable label, the ECE with the probability it gives to the predicted one. Votes of people may disagree for other
reasons than these.
"""
HEADER = (
    "| set | votes a row | | hard | soft | soft − hard | p |",
    "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
)


def main() -> None:
    """Measure what is missing, then report on all that is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=5, help="seeds (default 5)")
    parser.add_argument("--sets", default="", help=f"some of {','.join(SETS)}, with commas between them (default all)")
    parser.add_argument("--votes", default="", help=f"some of {','.join(VOTES)} (default all)")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page in docs/results/")
    args = parser.parse_args()
    figures = kept.read("soft-labels") if args.write else {}
    for votes in chosen(args.votes, VOTES):
        for seed in range(args.n):
            for name in chosen(args.sets, SETS):
                key = f"{name} {votes} {seed}"
                if key not in figures:
                    figures[key] = measure(name, int(votes), seed)
                    if args.write:
                        kept.write("soft-labels", figures)
    if args.write and not TINY:
        picture(figures)
        write_page("soft-labels", "Soft labels where annotators disagree", "make results-soft", page(figures))
    finish(figures)


if __name__ == "__main__":
    main()
