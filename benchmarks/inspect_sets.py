"""The data and the runs of `heads.py` and `attention.py`: e5-small, fine-tuned on five public sets.

Runs are kept in .cache/inspect/, so a stopped measurement goes on where it was.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import fitted
from common import KEPT_WORK, TINY
from fitted import fit_once
from set_files import MEASURE, questions, scored_pairs, tabbed

CACHE = KEPT_WORK / "inspect"
Row = dict[str, Any]
SETS = {"rt-polarity": "classify", "mrpc": "classify", "rte": "classify", "stsb": "score", "trec": "classify"}
"""Each set with its task."""
PAIRS = ("mrpc", "rte", "stsb")
"""The sets of pairs of texts."""
TRAINING = {"max_steps": 300, "batch_size": 32, "learning_rate": 5e-5}


def read(name: str, part: str) -> list[Row]:
    """The rows of a set's `train` or `test`."""
    first = part == "train"
    if name == "rt-polarity":
        return [{"text": text, "label": label} for label, text in tabbed(MEASURE / name / f"{part}.tsv")]
    if name == "trec":
        file = "train_5500.label" if first else "TREC_10.label"
        return [{"text": text, "label": label} for label, text in questions(MEASURE / "trec_qc" / file)]
    if name == "stsb":
        pairs = scored_pairs(MEASURE / name / f"sts-{part}.csv")
        return [{"text": one, "pair": other, "label": score} for one, other, score in pairs]
    if name == "mrpc":
        path, names = MEASURE / name / f"msr-para-{part}.tsv", ("#1 String", "#2 String", "Quality")
    else:
        path, names = MEASURE / "glue_rte" / ("train.tsv" if first else "dev.tsv"), ("sentence1", "sentence2", "label")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [dict(zip(("text", "pair", "label"), (row[name] for name in names), strict=True)) for row in rows]


def encoder() -> str:
    """The folder of the encoder that all runs start from."""
    return fitted.encoder("e5-small", CACHE)


def finished_run(name: str, seed: int, progress: Any) -> Path:
    """A run of a set, trained where it is not there yet; a tenth of its training rows is its dev part."""
    folder = CACHE / "runs" / f"{'tiny-' if TINY else ''}{name}-{seed}"
    fields: dict[str, Any] = {"task": SETS[name], "seed": seed, "data.split.dev": 0.1, "data.split.seed": 0}
    if SETS[name] == "classify":
        fields["head.init"] = "random"
    if name in PAIRS:
        fields["data.columns.pair"] = "pair"
    for part in ("train", "test"):
        path = CACHE / "data" / f"{'tiny-' if TINY else ''}{name}-{part}.jsonl"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = read(name, part)
            rows = rows[:: max(1, len(rows) // 200)] if TINY else rows
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        fields[f"data.{part}"] = str(path)
    training = {**TRAINING, "max_steps": 12, "learning_rate": 1e-3} if TINY else TRAINING
    return fit_once(folder, progress, model=encoder(), training=training, **fields)
