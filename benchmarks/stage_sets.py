"""Labelled rows to fine-tune on and raw text to pre-train on, of the study `stages` and the proof of stages; what the
proof needs is written once into .cache/stages/data/.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import craft_sets
from common import KEPT_WORK
from craft_sets import Set, _draw, written
from set_files import MEASURE, OPEN, Rows, questions, tabbed

CACHE = KEPT_WORK / "stages"


def rt() -> tuple[Rows, Rows]:
    """Sentences of film reviews."""
    train, test = (tabbed(MEASURE / "rt-polarity" / f"{part}.tsv") for part in ("train", "test"))
    return _draw(train, 1000), test


def trec() -> tuple[Rows, Rows]:
    """Questions with their six coarse kinds."""
    train, test = (questions(MEASURE / "trec_qc" / name) for name in ("train_5500.label", "TREC_10.label"))
    return _draw(train, 500), test


def imdb() -> tuple[Rows, Rows]:
    """Film reviews of which 128 tokens are seen."""
    return _draw(_reviews("train"), 1000), _draw(_reviews("test"), 1000)


def sst() -> tuple[Rows, Rows]:
    """Phrases of film reviews, to learn beside another task."""
    return _draw(_unseen_phrases(), 2000), _phrases(MEASURE / "sst" / "Binary" / "sentiment-dev")


SETS = {
    "rt": Set("rt-polarity: 2 labels, 1,000 training rows, 1,066 test rows", rt, {}),
    "trec": Set("TREC questions: 6 labels, 500 training rows, 500 test rows", trec, {}),
    "imdb": Set(
        "IMDb: 2 labels, 1,000 training reviews, 1,000 test reviews, 128 tokens of each, 2 epochs",
        imdb,
        {"window.max_tokens": 128, "training.epochs": 2, "training.learning_rate": 1e-4},
    ),
}
FILMS = ("imdb", "sst", "movie_reviews")


def data_of(name: str) -> dict[str, str]:
    """The recipe's keys for the data of a set, whose files are written where they are missing."""
    return written(sst if name == "sst" else SETS[name].rows, CACHE / "data" / name)


def texts_of_imdb(count: int) -> Path:
    """A file of so many training reviews of IMDb, without their labels."""
    path = CACHE / "data" / f"imdb-{count}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = (text for _, text in _draw(_reviews("train"), count))
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def _reviews(part: str) -> Rows:
    with gzip.open(MEASURE / "imdb" / f"{part}.csv.gz", "rt", newline="", encoding="utf-8") as file:
        return [(row["sentiment"], row["review"].replace("<br />", " ")) for row in csv.DictReader(file)]


def _phrases(path: Path) -> Rows:
    cells = [line.rsplit("\t", 1) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return [(label.strip(), text.strip()) for text, label in cells]


def _unseen_phrases() -> Rows:
    """Phrases that are nowhere in the test rows of rt-polarity, from whose sentences SST was made."""
    tested = "\n".join(" ".join(text.lower().split()) for _, text in tabbed(MEASURE / "rt-polarity" / "test.tsv"))
    found = _phrases(MEASURE / "sst" / "Binary" / "sentiment-train")
    return [(label, text) for label, text in found if " ".join(text.lower().split()) not in tested]


def _wikitext() -> Iterable[str]:
    """Paragraphs, without headings."""
    with gzip.open(OPEN / "wikitext-2-raw" / "train.raw.gz", "rt", encoding="utf-8") as file:
        yield from (line.strip() for line in file if len(line) > 100)


TEXTS: dict[str, Callable[[], Any]] = {
    # Test rows of the sets above are in none of these.
    "imdb": lambda: (text for _, text in _draw(_reviews("train"), 3000)),
    "sst": lambda: (text for _, text in _draw(_unseen_phrases(), 3000)),
    "movie_reviews": lambda: (text for part in craft_sets.long() for _, text in part),
    "questions": lambda: (text for _, text in questions(MEASURE / "trec_qc" / "train_5500.label")),
    "wikitext": _wikitext,
}
