"""The data of `craft.py`: small fixed draws of public sets, written once into .cache/craft/data/.

Small, since the craft of fine-tuning is for those who have few labelled rows; fixed, so that every variant and every
seed learns from the same rows and is measured on the same ones.
"""

from __future__ import annotations

import csv
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import KEPT_WORK
from set_files import MEASURE, OPEN, Rows, categories, film_reviews, questions, tabbed

CACHE = KEPT_WORK / "craft"


@dataclass(frozen=True)
class Set:
    """One set: what it is, and where its training and test rows come from."""

    about: str
    rows: Callable[[], tuple[Rows, Rows]]
    recipe: dict[str, Any]
    """What its recipe says beside model and data."""
    most_seeds: int = 100


def rt() -> tuple[Rows, Rows]:
    """Sentences of film reviews, 500 to learn from."""
    train, test = (tabbed(MEASURE / "rt-polarity" / f"{part}.tsv") for part in ("train", "test"))
    return _draw(train, 500), test


def trec() -> tuple[Rows, Rows]:
    """Questions with their six coarse kinds, 300 to learn from."""
    train, test = (questions(MEASURE / "trec_qc" / name) for name in ("train_5500.label", "TREC_10.label"))
    return _draw(train, 300), test


def banking() -> tuple[Rows, Rows]:
    """Messages to a bank with 77 intents, ten of each to learn from."""
    train, test = (categories(OPEN / "banking77" / "banking_data" / f"{part}.csv") for part in ("train", "test"))
    seen: Counter[str] = Counter()
    few = []
    for label, text in _draw(train, len(train)):
        seen[label] += 1
        if seen[label] <= 10:
            few.append((label, text))
    return few, test


def long() -> tuple[Rows, Rows]:
    """Whole film reviews, most past 512 tokens, 500 to learn from."""
    mixed = _draw(film_reviews(), 1000)
    return mixed[:500], mixed[500:]


SETS = {
    "rt": Set("rt-polarity: 2 labels, 500 training rows, 1,066 test rows", rt, {}),
    "trec": Set("TREC questions: 6 labels, 300 training rows, 500 test rows", trec, {}),
    "banking": Set("banking77: 77 labels, 10 training rows of each, 3,080 test rows", banking, {}),
    "long": Set(
        "whole film reviews: 2 labels, 500 training rows, 500 test rows, in a window of 256 tokens",
        long,
        {
            "window.max_tokens": 256,
            "head.pooling": "mean",
            "layers.freeze": 4,
            "training.learning_rate": 2e-4,
            "training.batch_size": 8,
            "training.epochs": 4,
        },
        most_seeds=3,
    ),
}


def data_of(name: str) -> dict[str, str]:
    """The recipe's keys for the data of a set, whose files are written where they are missing."""
    return written(SETS[name].rows, CACHE / "data" / name)


def written(rows: Callable[[], tuple[Rows, Rows]], stem: Path) -> dict[str, str]:
    """The recipe's keys for the data of a set, whose files, named by `stem` and their part, are written once."""
    paths = {part: stem.with_name(f"{stem.name}-{part}.csv") for part in ("train", "test")}
    if not all(path.is_file() for path in paths.values()):
        for path, some in zip(paths.values(), rows(), strict=True):
            _write(path, some)
    return {f"data.{part}": str(path) for part, path in paths.items()}


def _write(path: Path, rows: Sequence[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In one step, since another process may be about to read it.
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    with staging.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("label", "text"), *rows])
    staging.replace(path)


def _draw(rows: Rows, count: int) -> Rows:
    return random.Random(0).sample(rows, count)
