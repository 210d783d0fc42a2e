"""Rows with the same text: again, with another answer, or in two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warmstart.data.checks.collector import Sightings
from warmstart.data.split import Keys, keys
from warmstart.data.table import Table


@dataclass(frozen=True)
class Hashes:
    """A number for each row's folded texts, its texts to the letter, and its answer, the same for all without one."""

    folded: Keys
    exact: Any
    answers: Any
    what: str = "text and answer"


def hashes(table: Table, texts: Sequence[str], answer: str | None) -> Hashes:
    """Hash every row; Python's own hash will do, since it is compared in this process only."""
    exact = np.empty(len(table), dtype=np.int64)
    answers = np.zeros(len(table), dtype=np.int64)
    row = 0
    for columns in table.arrays([*texts, *([answer] if answer else [])]):
        end = row + len(columns[0])
        plain = (map(_plain, column.to_pylist()) for column in columns[: len(texts)])
        exact[row:end] = [hash(one) for one in zip(*plain, strict=True)]
        if answer:
            given = columns[-1].to_pylist()
            answers[row:end] = [hash(_plain(sorted(one) if _labels(one) else one)) for one in given]
        row = end
    return Hashes(keys(table, texts), exact, answers, "text and answer" if answer else "text")


def _plain(value: Any) -> Any:
    """A value that can be hashed."""
    return str(value) if isinstance(value, list) else value


def _labels(value: Any) -> bool:
    """Whether a value is a list of labels, whose order does not count."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def check_twins(seen: Sightings, found: Hashes) -> None:
    """Tell of rows whose texts stand in an earlier row, with the same answer or another."""
    order = np.argsort(found.folded, kind="stable")
    ordered = found.folded[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    earliest = np.repeat(order[starts], np.diff(np.r_[starts, len(order)]))
    first = np.empty_like(order)
    first[order] = earliest
    later = np.flatnonzero(first != np.arange(len(first)))
    other = found.answers[later] != found.answers[first[later]]
    same = found.exact[later] == found.exact[first[later]]

    def where(row: int) -> str:
        return seen.table.where(int(first[row]))

    seen.see_all("label-conflict", later[other], lambda row: f"the text of {where(row)} again, with another answer")
    seen.see_all("duplicate", later[~other & same], lambda row: f"the {found.what} of {where(row)} again")
    near = later[~other & ~same]
    seen.see_all(
        "duplicate-near", near, lambda row: f"the {found.what} of {where(row)} again, but for case, spacing or width"
    )


def check_across(seen: Sightings, part: Hashes, train: Hashes, table: Table) -> None:
    """Tell of rows of dev or test whose text has another answer in training."""
    known, firsts = np.unique(train.folded, return_index=True)
    places = np.minimum(np.searchsorted(known, part.folded), len(known) - 1)
    rows = np.flatnonzero((known[places] == part.folded) & (train.answers[firsts[places]] != part.answers))

    def where(row: int) -> str:
        return table.where(int(firsts[places[row]]))

    seen.see_all("shared-conflict", rows, lambda row: f"the text is in training with another answer, at {where(row)}")
