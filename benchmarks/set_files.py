"""Readers of the public sets' own files, as they are handed around: what benchmarks and studies share."""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
from pathlib import Path

from common import SHARED

MEASURE, OPEN = SHARED / "data" / "measure-only", SHARED / "data" / "open"
Rows = list[tuple[str, str]]
"""A label and a text each."""


def tabbed(path: Path) -> Rows:
    """Lines of a label, a tab and a text, as in rt-polarity."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [(label, text) for label, text in (line.split("\t", 1) for line in lines if line)]


def questions(path: Path) -> Rows:
    """Questions of TREC with their coarse labels."""
    lines = path.read_text(encoding="latin-1").split("\n")
    return [(line.partition(":")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def categories(path: Path) -> Rows:
    """Messages of banking77 with their intents."""
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["category"], row["text"]) for row in csv.DictReader(file)]


def film_reviews() -> Rows:
    """Whole film reviews, whitespace collapsed, in the order of their names."""
    with zipfile.ZipFile(MEASURE / "movie_reviews_2000" / "movie_reviews.zip") as files:
        names = sorted(name for name in files.namelist() if name.endswith(".txt"))
        rows = [(Path(name).parent.name, " ".join(files.read(name).decode("latin-1").split())) for name in names]
    return [row for row in rows if row[0] in {"pos", "neg"}]


def candidates(path: Path) -> list[dict[str, object]]:
    """Questions of WikiQA, each with a sentence that may answer it, and whether it does."""
    cells = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return [{"query": query, "document": document, "label": int(label)} for query, document, label in cells]


def scored_pairs(path: Path) -> list[tuple[str, str, float]]:
    """Pairs of sentences of STS-B with how alike they are, from 0 to 5."""
    cells = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return [(row[5].strip(), row[6].strip(), float(row[4])) for row in cells]


def articles(part: str) -> list[str]:
    """The text of each article of wikitext-2; a line between single equals signs is the title of the next."""
    found: list[list[str]] = []
    with gzip.open(OPEN / "wikitext-2-raw" / f"{part}.raw.gz", "rt", encoding="utf-8") as file:
        for line in file:
            if re.fullmatch(r" = [^=].*[^=] = \n?", line) or not found:
                found.append([])
            elif line.strip() and not line.startswith(" = "):
                found[-1].append(line.strip())
    return [" ".join(one) for one in found if one]
