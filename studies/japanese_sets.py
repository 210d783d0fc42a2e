"""Japanese sets of the studies, their words set apart, and raw text to pre-train on.

| set | task | training rows | test rows |
| --- | --- | --- | --- |
| mlit | 16 labels, complaints about cars | nine tenths | a tenth of each label |
| patient | ranking names of diseases for words of patients | its own | 300 of its queries, each with all its names |
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from set_files import MEASURE, OPEN, Rows, tabbed

Row = dict[str, object]
Parts = tuple[list[Row], list[Row]]
TEST_QUERIES = 300


def mlit() -> tuple[Rows, Rows]:
    """Complaints about cars."""
    rows = tabbed(MEASURE / "mlit" / "all.tsv")
    by_label: dict[str, Rows] = {}
    for row in random.Random(0).sample(rows, len(rows)):
        by_label.setdefault(row[0], []).append(row)
    test = [row for some in by_label.values() for row in some[: len(some) // 10]]
    train = [row for some in by_label.values() for row in some[len(some) // 10 :]]
    return train, test


def patient() -> Parts:
    """Words of patients and the names of their diseases: to learn from, the right ones; to test on, all of them."""
    train = [{"query": query, "document": name, "label": 1} for query, names in _judged("train") for name in names]
    judged = _judged("test")
    every = sorted({name for _, names in judged for name in names})
    asked = random.Random(0).sample(judged, TEST_QUERIES)
    test = [{"query": query, "document": name, "label": int(name in own)} for query, own in asked for name in every]
    return train, test


def _judged(part: str) -> list[tuple[str, list[str]]]:
    """Queries, each with the names that are right; a query that is there twice has those of both."""
    folder = MEASURE / "patient"
    queries, documents = (
        dict(line.split("\t", 1) for line in _lines(folder / f"{part}.{kind}.tsv")) for kind in ("queries", "docs")
    )
    names: dict[str, list[str]] = {}
    for query, _, document, label in (line.split("\t") for line in _lines(folder / f"{part}.qrel")):
        if int(label) > 0:
            names.setdefault(queries[query].strip(), []).append(documents[document].strip())
    return [(query, list(dict.fromkeys(own))) for query, own in names.items()]


def japanese() -> list[str]:
    """Texts of the training rows of mlit and patient, and other Japanese sentences, their words set apart by MeCab."""
    import fugashi

    tagger = fugashi.Tagger("-Owakati")
    own = [text.strip() for _, text in mlit()[0]]
    judged = _judged("train")
    own += dict.fromkeys([query for query, _ in judged] + [name for _, names in judged for name in names])
    return own + [tagger.parse(text).strip() for text in dict.fromkeys(_sentences())]


def _sentences() -> Iterator[str]:
    """Sentences of Wikipedia, captions of pictures, and questions with their answers."""
    yield from (row["text"] for row in json.loads((OPEN / "ner_wikipedia_ja" / "ner.json").read_text(encoding="utf-8")))
    folder = OPEN / "jglue" / "datasets"
    for row in map(json.loads, _lines(folder / "jsts-v1.3" / "train-v1.3.json")):
        yield from (row["sentence1"], row["sentence2"])
    for row in map(json.loads, _lines(folder / "jcommonsenseqa-v1.3" / "train-v1.3.json")):
        yield f"{row['question']}{row['choice' + str(row['label'])]}"


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
