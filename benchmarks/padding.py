"""The real texts that training speed is measured on, and how much of their batches is padding."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
from typing import Any

from common import SHARED
from warmstart.training.batches import LengthGroupedBatchSampler, RandomBatchSampler, row_lengths

PADDED = 10_000
TOKENS = 4096
Texts = dict[str, list[str]]


def read_texts(name: str, count: int) -> Texts:
    """Texts and labels of a data set, and pairs where it has them, drawn by chance."""
    if os.environ.get("WARMSTART_BENCH_TINY"):
        rows = [("good film " * (number % 9 + 1), "", "ab"[number % 2]) for number in range(count)]
    else:
        rows = _READERS[name]()
    chosen = random.Random(0).sample(rows, min(count, len(rows)))
    found = {"text": [one[0] for one in chosen], "label": [one[2] for one in chosen]}
    return {**found, "pair": [one[1] for one in chosen]} if chosen[0][1] else found


def padding_table(tokenizer: Any) -> str:
    """A table of the share of padding, per data set and order."""
    lines = [
        "| data | rows | random | by-length | by-length, 4,096 tokens/step |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in _READERS:
        texts = read_texts(name, 2000 if name == "imdb" else PADDED)
        pairs = texts.get("pair")
        ids = tokenizer(texts["text"], pairs, truncation=True, max_length=512)["input_ids"]
        lengths = row_lengths([{"input_ids": one} for one in ids])
        orders = (
            RandomBatchSampler(len(lengths)),
            LengthGroupedBatchSampler(lengths),
            LengthGroupedBatchSampler(lengths, batch_tokens=TOKENS),
        )
        shares = []
        for order in orders:
            padded = sum(len(batch) * int(max(lengths[batch])) for batch in order)
            shares.append(f"{1 - lengths.sum() / padded:.1%}")
        lines.append(f"| {name} | {len(lengths):,} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _rt_polarity() -> list[tuple[str, str, str]]:
    lines = (SHARED / "data/measure-only/rt-polarity/train.tsv").read_text(encoding="utf-8").splitlines()
    return [(text, "", label) for label, _, text in (line.partition("\t") for line in lines)]


def _banking77() -> list[tuple[str, str, str]]:
    with (SHARED / "data/open/banking77/banking_data/train.csv").open(encoding="utf-8", newline="") as file:
        return [(row["text"], "", row["category"]) for row in csv.DictReader(file)]


def _trec() -> list[tuple[str, str, str]]:
    lines = (SHARED / "data/measure-only/trec_qc/train_5500.label").read_text(encoding="latin-1").splitlines()
    return [(text, "", label) for label, _, text in (line.partition(" ") for line in lines)]


def _imdb() -> list[tuple[str, str, str]]:
    with gzip.open(SHARED / "data/measure-only/imdb/train.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return [(row["review"], "", row["sentiment"]) for row in csv.DictReader(file)]


def _boolq() -> list[tuple[str, str, str]]:
    with gzip.open(SHARED / "data/open/boolq/combined.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [(row["question"], row["passage"], str(row.get("answer"))) for row in rows]


_READERS = {"rt-polarity": _rt_polarity, "banking77": _banking77, "trec_qc": _trec, "imdb": _imdb, "boolq": _boolq}
