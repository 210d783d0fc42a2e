"""The data of `ulmfit.py` and `ulmfit_lm.py`: WikiText-2 by article, and labelled rows, written into .cache/ulmfit/."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from common import KEPT_WORK
from craft_sets import Set, _draw, written
from set_files import MEASURE, OPEN, Rows, questions
from stage_sets import _reviews

CACHE = KEPT_WORK / "ulmfit"
HEADING = re.compile(r" = [^=].* = $")
"""The first line of an article."""
TEST_ROWS = 2000


def articles(part: str) -> Iterator[str]:
    """The articles of WikiText-2, of train, valid or test."""
    lines: list[str] = []
    with gzip.open(OPEN / "wikitext-2-raw" / f"{part}.raw.gz", "rt", encoding="utf-8") as file:
        for line in map(str.rstrip, (line.rstrip("\n") for line in file)):
            if HEADING.fullmatch(f"{line} ") and lines:
                yield "\n".join(lines)
                lines = []
            if line.strip():
                lines.append(line)
    yield "\n".join(lines)


def wikitext(part: str, count: int | None = None) -> Path:
    """A file with the articles, a row each; the first ones where a number is given."""
    path = CACHE / "data" / f"wikitext-{part}{'' if count is None else f'-{count}'}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = list(articles(part))[:count]
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def trec(count: int | None) -> tuple[Rows, Rows]:
    """Questions with their six coarse kinds."""
    train, test = (questions(MEASURE / "trec_qc" / name) for name in ("train_5500.label", "TREC_10.label"))
    return _draw(train, count) if count else train, test


def imdb(count: int) -> tuple[Rows, Rows]:
    """Whole film reviews."""
    return _draw(_reviews("train"), count), _draw(_reviews("test"), TEST_ROWS)


SETS = {
    "trec-100": Set("TREC questions: 100 training rows", lambda: trec(100), {}),
    "trec-500": Set("TREC questions: 500 training rows", lambda: trec(500), {}),
    "trec-all": Set("TREC questions: all 5,452 training rows", lambda: trec(None), {}),
    "imdb-100": Set("IMDb: 100 training reviews, 2,000 test reviews", lambda: imdb(100), {}),
    "imdb-500": Set("IMDb: 500 training reviews, 2,000 test reviews", lambda: imdb(500), {}),
    "imdb-5000": Set("IMDb: 5,000 training reviews, 2,000 test reviews", lambda: imdb(5000), {}),
}


def data_of(name: str) -> dict[str, str]:
    """The recipe's keys for the data of a set, whose files are written where they are missing."""
    return written(SETS[name].rows, CACHE / "data" / name)
