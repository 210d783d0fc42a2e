"""What the rows of a run are like: how often each label occurs, and how long the texts are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from transformers import PreTrainedTokenizerBase

from warmstart.data.schema import Schema
from warmstart.data.table import Table
from warmstart.diagnosis.answer_labels import labels_of
from warmstart.evaluation.records.data_profile import ClassBalance, LengthHistogram
from warmstart.text.windows import Window

LABEL_KINDS = {"label": "rows", "labels": "rows", "entities": "entities"}
"""Kinds of an answer that have labels, and what is counted."""
MOST_ROWS = 5_000
"""Rows of a part whose tokens are counted."""
BINS = 25
CHUNK = 500


def class_balance(tables: Mapping[str, Table], schema: Schema) -> ClassBalance | None:
    """How often each label occurs in each part; None for a task without labels."""
    answer = schema.answer
    if answer is None or answer.kind not in LABEL_KINDS:
        return None
    counters: dict[str, Counter[str]] = {}
    for part, table in tables.items():
        if answer.name not in table.rows.column_names:  # soft labels alone
            continue
        counters[part] = Counter(label for value in table.column(answer.name) for label in labels_of(value))
    first, total = next(iter(counters.values()), Counter[str]()), sum(counters.values(), Counter[str]())
    labels = sorted(total, key=lambda label: (-first[label], -total[label], label))
    counts = {part: [counter[label] for label in labels] for part, counter in counters.items()}
    return ClassBalance(labels, counts, LABEL_KINDS[answer.kind]) if labels else None


def length_histogram(
    tables: Mapping[str, Table], schema: Schema, tokenizer: PreTrainedTokenizerBase, window: Window
) -> LengthHistogram | None:
    """How many tokens the rows of each part have, of a sample where they are many; None for a task without texts."""
    lengths = {part: _lengths(table, schema, tokenizer) for part, table in tables.items()}
    every = [length for part in lengths.values() for length in part]
    if not every:
        return None
    # A single long row would press all others into the first bin.
    top = max(int(np.percentile(every, 99)), 1)
    width = max(1, -(-top // BINS))
    edges = list(range(0, top + width, width))
    counts = {
        part: np.histogram(np.minimum(values, edges[-1] - 1), edges)[0].tolist() for part, values in lengths.items()
    }
    sampled = any(len(table) > MOST_ROWS for table in tables.values())
    return LengthHistogram(edges, counts, max(every), window.max_tokens, sampled)


def _lengths(table: Table, schema: Schema, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens of each row, all of its texts together, without special tokens."""
    count = min(len(table), MOST_ROWS)
    chosen = table if count == len(table) else table.select(np.linspace(0, len(table) - 1, count).astype(int))
    lengths: list[int] = []
    for chunk in chosen.chunks(CHUNK):
        texts = [chunk[name] for name in schema.texts if name in chunk and name in schema.inputs]
        rows = [sum(row) for row in zip(*(_tokens(column, tokenizer) for column in texts), strict=True)]
        lengths += rows
    return lengths


def _tokens(column: list[str | None], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    texts = [text or "" for text in column]
    encoded = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
    return [len(ids) for ids in encoded["input_ids"]]
