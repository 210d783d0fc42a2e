"""Answers looked at together: labels that are nearly another, rare or suspicious; scores far from the rest."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy as np
import pyarrow.compute as pc

from warmstart.data.checks.characters import HIDDEN, NOTHING
from warmstart.data.checks.collector import Sightings, shown
from warmstart.data.split import fold
from warmstart.data.table import Table

FEW = 20
"""Below so many rows, how often a label stands says little."""
LONGEST = 100
"""Characters of a label past which it looks like a text."""
MOST = 0.95
"""Share of one label past which the rest hardly counts."""
VALUES, NUMBERS = 5, 50
"""So many different fractions, or whole numbers, look like a score."""
SPREAD = 10
"""A score is far from the others at so many times the middle half's width from their median."""

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")

Labels = dict[str, tuple[int, int]]
"""Each label with its number of rows and its first row."""


def labels_of(table: Table, answer: str) -> Labels:
    """Count the labels of a column of one label, or of several, a row."""
    found: Labels = {}
    for row, value in enumerate(table.column(answer)):
        for label in value if isinstance(value, list) else (value,):
            label = label["label"] if isinstance(label, dict) else label
            count, first = found.get(label, (0, row))
            found[label] = (count + 1, first)
    return found


def check_labels(seen: Sightings, labels: Labels) -> None:
    """Look at each label by itself and beside the others."""
    for label, (count, first) in sorted(labels.items(), key=lambda item: item[1][1]):
        if NOTHING.fullmatch(label):
            seen.see("label-na", first, f"the label {shown(label)} is a word for nothing, kept as a label", count)
        if HIDDEN.search(label):
            seen.see("label-hidden", first, f"the label {shown(label)} holds a character that is not seen", count)
        if unicodedata.normalize("NFC", label) != label:
            seen.see("label-nfc", first, f"the label {label!a} is not in form NFC", count)
        if len(label) > LONGEST:
            seen.see("label-long", first, f"a label of {len(label):,} characters: {shown(label)}; the right column?")
    _nearly(seen, labels)


def check_shares(seen: Sightings, labels: Labels, rows: int, single: bool) -> None:
    """Look at how often each label stands in the training rows; `single`: a row has one label and no more."""
    most, (count, _) = max(labels.items(), key=lambda item: item[1][0])
    if rows >= FEW and len(labels) > rows / 2:
        seen.see_table("label-many", f"{len(labels):,} labels in {rows:,} rows; is --label the right column?")
    else:
        for label, (number, first) in sorted(labels.items(), key=lambda item: item[1][1]):
            if number == 1:
                seen.see("label-single", first, f"the label {shown(label)} has this one row")
    if single and rows >= FEW and count > MOST * rows:
        seen.see_table("imbalance", f"{count / rows:.1%} of the rows have the label {shown(most)}")
    if all(map(_NUMBER.fullmatch, labels)):
        whole = all(float(label).is_integer() for label in labels)
        if (not whole and len(labels) >= VALUES) or (len(labels) >= NUMBERS and len(labels) > rows / FEW):
            what = f"the labels are {len(labels)} different numbers; to learn a number, say --task score"
            seen.see_table("label-numbers", what)


def check_leaks(seen: Sightings, text: str, answer: str) -> None:
    """Tell of a label that is the text, and of labels that stand in every text."""
    row = 0
    inside = True
    for texts, labels in seen.table.arrays([text, answer]):
        bare = [pc.utf8_lower(pc.utf8_trim_whitespace(array)) for array in (texts, labels)]
        for place in np.flatnonzero(pc.equal(*bare).to_numpy(zero_copy_only=False)):
            seen.see("label-is-text", row + int(place), f"the label is the text: {shown(texts[int(place)].as_py())}")
        inside = inside and all(
            len(label) > 1 and label in body
            for body, label in zip(bare[0].to_pylist(), bare[1].to_pylist(), strict=True)
        )
        row += len(texts)
    if inside and row >= FEW:
        seen.see_table("label-in-text", f"each of the {row:,} texts holds its label: it can be learned by reading it")


def check_scores(seen: Sightings, answer: str) -> None:
    """Tell of scores that are all the same, or far from all others."""
    scores: Any = np.concatenate([array.to_numpy() for (array,) in seen.table.arrays([answer])])
    if len(scores) > 1 and scores.min() == scores.max():
        seen.see_table("score-same", f"all {len(scores):,} scores are {scores[0]:g}; is --label the right column?")
        return
    low, median, high = np.quantile(scores, [0.25, 0.5, 0.75])
    if high > low:
        far = np.flatnonzero(np.abs(scores - median) > SPREAD * (high - low))
        half = f"half of all lie from {low:g} to {high:g}"
        seen.see_all("score-outlier", far, lambda row: f"the score {scores[row]:g} is far from the others: {half}")


def _nearly(seen: Sightings, labels: Labels) -> None:
    """Tell of labels that are one and the same but for case, spacing, width or another compatible form."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(fold(label), []).append(label)
    pairs = []
    for group in groups.values():
        group.sort(key=lambda label: (-labels[label][0], labels[label][1]))
        pairs += [(labels[rare][1], rare, group[0]) for rare in group[1:]]
    for first, rare, common in sorted(pairs):
        spelling = " ".join(rare.split()).casefold() == " ".join(common.split()).casefold()
        counts = f"{labels[rare][0]:,} and {labels[common][0]:,} rows"
        what = f"the labels {shown(rare)} and {shown(common)} ({counts}) are nearly one"
        seen.see("label-spelling" if spelling else "label-width", first, what, labels[rare][0])
