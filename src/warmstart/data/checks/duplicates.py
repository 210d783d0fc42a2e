"""Rows with the same text: repeated, with another answer, or in two parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from warmstart.data.checks.collector import FindingCollector
from warmstart.data.schema import Value
from warmstart.data.split import Keys, row_keys
from warmstart.data.table import Indices, Table


@dataclass(frozen=True)
class RowHashes:
    """A number for each row's folded texts, its exact texts, and its answer, equal for all rows without one."""

    folded: Keys
    exact: Indices
    answers: Indices
    what: str = "text and answer"


def row_hashes(table: Table, texts: Sequence[str], answer: str | None) -> RowHashes:
    """Hash every row; Python's own hash suffices, since it is compared in this process only."""
    exact = np.empty(len(table), dtype=np.int64)
    answers = np.zeros(len(table), dtype=np.int64)
    row = 0
    for columns in table.arrays([*texts, *([answer] if answer else [])]):
        end = row + len(columns[0])
        inputs = (map(_hashable, column.to_pylist()) for column in columns[: len(texts)])
        exact[row:end] = [hash(values) for values in zip(*inputs, strict=True)]
        if answer:
            answers[row:end] = [_answer_hash(value) for value in columns[-1].to_pylist()]
        row = end
    return RowHashes(row_keys(table, texts), exact, answers, "text and answer" if answer else "text")


def _answer_hash(value: Value) -> int:
    labels = isinstance(value, list) and bool(value) and isinstance(value[0], str)
    return hash(_hashable(sorted(value) if labels else value))  # the order of labels does not count


def _hashable(value: Value) -> Hashable:
    return str(value) if isinstance(value, list) else value


def check_duplicates(collector: FindingCollector, hashes: RowHashes) -> None:
    """Report rows whose texts an earlier row has, with the same answer or another."""
    order = np.argsort(hashes.folded, kind="stable")
    ordered = hashes.folded[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    earliest = np.repeat(order[starts], np.diff(np.r_[starts, len(order)]))
    first = np.empty_like(order)
    first[order] = earliest
    later = np.flatnonzero(first != np.arange(len(first)))
    other = hashes.answers[later] != hashes.answers[first[later]]
    same = hashes.exact[later] == hashes.exact[first[later]]

    def repeats(what: str, but: str = "") -> Callable[[int], str]:
        return lambda row: f"repeats the {what} of {collector.table.location(int(first[row]))}{but}"

    collector.add_rows("label-conflict", later[other], repeats("text", ", with another answer"))
    collector.add_rows("duplicate", later[~other & same], repeats(hashes.what))
    near = later[~other & ~same]
    collector.add_rows("duplicate-near", near, repeats(hashes.what, ", except for case, spacing or width"))


def check_across(collector: FindingCollector, part: RowHashes, train: RowHashes, table: Table) -> None:
    """Report rows of dev or test whose text has another answer in training."""
    known, firsts = np.unique(train.folded, return_index=True)
    positions = np.minimum(np.searchsorted(known, part.folded), len(known) - 1)
    rows = np.flatnonzero((known[positions] == part.folded) & (train.answers[firsts[positions]] != part.answers))

    def message(row: int) -> str:
        return f"the text is in training with another answer, at {table.location(int(firsts[positions[row]]))}"

    collector.add_rows("shared-conflict", rows, message)
