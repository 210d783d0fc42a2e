"""What a learning rate does to what the encoder knew, as in Fig. 2 of Sun et al. 2019, with what it forgets beside it.

Runs are kept in .cache/forgetting/, so a stopped measurement goes on where it was and several processes may share the
work. The general text is the test part of wikitext-2; none of it is in the runs.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from statistics import mean
from typing import Any

import common
from common import KEPT_WORK, arguments, finish, weights, write_page
from craft_sets import _draw, _write
from set_files import MEASURE, OPEN, questions

CACHE = KEPT_WORK / "forgetting"
RATES = (2e-5, 5e-5, 1e-4, 4e-4)
ROWS = 1000
"""Questions to learn from."""
SETTINGS = {
    "training.epochs": 5,
    "training.batch_size": 32,
    "training.min_steps": None,
    "forgetting.rows": 60,
    "forgetting.every_steps": 40,
    "data.split.test": 0,
}

READING = """
**What is forgotten grows with the learning rate, from the top down.** The last block is the least similar to what it
was, and the less so the higher the learning rate; the first block and the embeddings hardly change at any of them. At
4e-4, even the middle block has changed, and the head for masked tokens is worse than uncertain: it is confident, and
wrong.

**The published failure does not occur here.** In the paper, BERT-base does not converge on IMDb at 4e-4. This encoder
of six blocks learns the six question types at every learning rate, if slowly at 2e-5, where 160 steps are too few.
With one seed per learning rate, a point or two of test error mean nothing.

**Keep in mind** that this encoder was trained for sentence embeddings and comes without a masked-language-modeling
head: even before training, a fitted head predicts fewer than one masked token in ten. Once training has changed the
last block, the loss mostly says that this head no longer fits; the similarity of the layers (CKA) says more. What is
lost on general text is the price of the task, and only your own test rows can tell whether it was worth paying.
"""
"""What the figures say, in plain words; written by hand after looking at them."""


def recipe() -> dict[str, Any]:
    """The recipe of all runs but for its rate; the files that it names are written where they are missing."""
    paths = {name: CACHE / "data" / name for name in ("train.csv", "test.csv", "general.jsonl")}
    if not all(path.is_file() for path in paths.values()):
        train, test = (questions(MEASURE / "trec_qc" / name) for name in ("train_5500.label", "TREC_10.label"))
        _write(paths["train.csv"], _draw(train, ROWS))
        _write(paths["test.csv"], test)
        _general(paths["general.jsonl"])
    data = {"data.train": str(paths["train.csv"]), "data.dev": str(paths["test.csv"])}
    return {"model": weights("minilm"), **data, "forgetting.text": str(paths["general.jsonl"]), **SETTINGS}


def _general(path: Path) -> None:
    """Paragraphs of wikitext-2's test part, without its headings."""
    with gzip.open(OPEN / "wikitext-2-raw" / "test.raw.gz", "rt", encoding="utf-8") as file:
        texts = [line.strip() for line in file if len(line.strip()) > 200]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")


def curves(folder: Path) -> dict[float, list[dict[str, Any]]]:
    """What each run of a rate saw, by rate: one entry a run."""
    from warmstart.evaluation.records.files import as_json
    from warmstart.evaluation.run import RunFolder
    from warmstart.experiments.repeat import read_results

    found: dict[float, list[dict[str, Any]]] = {}
    for rate in RATES:
        runs = [RunFolder(row.folder) for row in read_results(folder, [f"{rate:g}"])]
        found[rate] = [{"history": run.training.history, **as_json(run.forgetting["01-finetune"])} for run in runs]
    return {rate: some for rate, some in found.items() if some}


def series(some: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """The steps of a curve, and the mean over runs of what was seen there."""
    if name == "training loss":
        steps = [one["step"] for one in some[0]["history"]]
        return steps, [mean(run["history"][i]["loss"] for run in some) for i in range(len(steps))]
    steps = [one["step"] for one in some[0]["seen"]]
    return steps, [mean(_value(run["seen"][i], name) for run in some) for i in range(len(steps))]


def _value(seen: dict[str, Any], name: str) -> float:
    if name == "test error, %":
        return 100 * (1 - seen["scores"]["accuracy"])
    if name == "loss of masked tokens":
        return float(seen["loss"])
    if name == "accuracy on masked tokens, %":
        return 100 * float(seen["accuracy"])
    layer = {"first": 1, "middle": len(seen["cka"]) // 2, "last": -1}[name.split()[-2]]
    return float(seen["cka"][layer])


PANELS = ("training loss", "test error, %", "loss of masked tokens", "CKA, last block")


def picture(found: dict[float, list[dict[str, Any]]], path: Path) -> None:
    """The four curves over training, a line for each rate."""
    from warmstart.inspection.plots import draw

    panels = {name: {f"{rate:g}": series(some, name) for rate, some in found.items()} for name in PANELS}
    draw(panels, path, "learning rate", "optimizer steps")


def page(found: dict[float, list[dict[str, Any]]]) -> str:
    """The picture, the numbers at the end, and what they say."""
    seeds = " and ".join(sorted({str(len(some)) for some in found.values()}))
    some = next(iter(found.values()))[0]
    names = ("test error, %", "loss of masked tokens", "accuracy on masked tokens, %")
    names += tuple(f"CKA, {layer} block" for layer in ("first", "middle", "last"))
    before = " | ".join(f"{_value(some['seen'][0], name):.3g}" for name in names)
    rows = [
        f"| {rate:g} | " + " | ".join(f"{series(runs, name)[1][-1]:.3g}" for name in names) + " |"
        for rate, runs in found.items()
    ]
    return "\n".join(
        [
            "What is forgotten grows with the learning rate, from the top down.",
            "",
            f"all-MiniLM-L6-v2 is fine-tuned on {ROWS:,} TREC questions of six types, with four learning rates (batch "
            f"size 32, linear schedule with 10% warm-up). Seeds per learning rate: {seeds}; means are shown. Every "
            f"{SETTINGS['forgetting.every_steps']} steps it is evaluated on the 500 test questions, and on what it "
            f"still knows about {some['rows']} paragraphs of wikitext-2: how well masked tokens are predicted, by a "
            "head that was fitted to the pretrained encoder, and how similar the hidden states of each block are to "
            "those of the pretrained encoder (linear CKA). The page follows the figure on catastrophic forgetting in "
            "[Sun et al. 2019](https://arxiv.org/abs/1905.05583), "
            "which shows training loss and test error of BERT-base on IMDb with these learning rates.",
            "",
            "![Training loss, test error, loss of masked tokens and CKA of the last block over the steps, a "
            "line for each learning rate](forgetting.svg)",
            "",
            f"| learning rate | {' | '.join(names)} |",
            "| ---: |" + " ---: |" * len(names),
            f"| before | {before} |",
            *rows,
            "",
            READING.strip(),
        ]
    )


def main() -> None:
    """Train what is missing, then report on all that is there."""
    args = arguments(__doc__ or "", 3, "seeds")
    from craft import Lines
    from warmstart.experiments.repeat import repeat

    folder = CACHE / "runs"
    variants = {f"{rate:g}": {"training.learning_rate": rate} for rate in RATES}
    if not os.environ.get("WARMSTART_BENCH_NO_TRAIN"):
        repeat(recipe(), variants, range(args.n), folder, Lines("forgetting"), keep="numbers")
    found = curves(folder)
    if args.write:
        picture(found, common.ROOT / "docs" / "results" / "forgetting.svg")
        write_page("forgetting", "What a rate makes an encoder forget", "make results-forgetting", page(found))
    last = {f"{rate:g}": some for rate, some in found.items()}
    finish({name: {one: round(series(some, one)[1][-1], 4) for one in PANELS} for name, some in last.items()})


if __name__ == "__main__":
    main()
