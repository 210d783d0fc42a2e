"""How the peers of `tasks.py` read their files, and pick an answer: the usual few lines, none of them warmstart's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 30
"""The most tokens of an answer."""


def jsonl(path: str) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").split("\n") if line]


def sentences(path: str) -> list[tuple[list[str], list[str]]]:
    """Words and tags of each sentence; tags in BIO, whichever of BIO and IOB1 the file has."""
    found: list[tuple[list[str], list[str]]] = [([], [])]
    for line in Path(path).read_text(encoding="utf-8").split("\n"):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or cells[0] == "-DOCSTART-":
            found.append(([], []))
            continue
        found[-1][0].append(cells[0])
        found[-1][1].append(cells[-1].strip())
    return [(words, _bio(tags)) for words, tags in found if words]


def _bio(tags: list[str]) -> list[str]:
    fixed = []
    for before, tag in zip(["O", *tags], tags, strict=False):
        new = tag.startswith("I-") and (before == "O" or before[2:] != tag[2:])
        fixed.append("B" + tag[1:] if new else tag)
    return fixed


def answers_of(starts: Any, ends: Any, offsets: Any, inside: list[bool], context: str) -> tuple[float, str]:
    """The best score of a window, and its text."""
    places = [place for place, ok in enumerate(inside) if ok]
    best, text = -np.inf, ""
    for start in sorted(places, key=lambda place: -starts[place])[:20]:
        for end in range(start, min(start + LONGEST, len(inside))):
            if inside[end] and starts[start] + ends[end] > best:
                best, text = float(starts[start] + ends[end]), context[offsets[start][0] : offsets[end][1]]
    return best, text


def collection(said: dict[str, Any]) -> tuple[list[tuple[str, str]], dict[str, Any], dict[str, str], dict[str, str]]:
    """Pairs to learn from; what is judged, and among which documents; the test's queries and documents by id."""
    train, test = said["data.train"], said["data.test"]
    if isinstance(train, str):
        rows = jsonl(test)
        pairs = [(row["query"], row["document"]) for row in jsonl(train) if row["label"] > 0]
        queries = {row["query"]: row["query"] for row in rows}
        documents = {row["document"]: row["document"] for row in rows}
        among: dict[str, list[str]] = {}
        for row in rows:
            among.setdefault(row["query"], []).append(row["document"])
        qrels = [(row["query"], row["document"], row["label"]) for row in rows]
        return pairs, {"qrels": qrels, "among": among}, queries, documents
    texts = {
        part: [_texts(one[name]["file"]) for name in ("queries", "documents")]
        for part, one in (("train", train), ("test", test))
    }
    pairs = [
        (texts["train"][0][query], texts["train"][1][document])
        for query, document, label in _qrels(train["file"])
        if label > 0
    ]
    qrels = _qrels(test["file"])
    queries = {query: texts["test"][0][query] for query, _, _ in qrels}
    documents = texts["test"][1]
    return pairs, {"qrels": qrels, "among": {query: list(documents) for query in queries}}, queries, documents


def _texts(path: str) -> dict[str, str]:
    cells = (line.split("\t", 1) for line in Path(path).read_text(encoding="utf-8").split("\n") if line)
    return {one[0]: one[1] for one in cells}


def _qrels(path: str) -> list[tuple[str, str, int]]:
    cells = (line.split() for line in Path(path).read_text(encoding="utf-8").split("\n") if line)
    return [(one[0], one[2], int(one[3])) for one in cells]
