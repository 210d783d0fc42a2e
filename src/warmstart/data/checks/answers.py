"""Checks of all answers together: labels that are nearly another, rare or suspicious; scores far from the rest."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow.compute as pc

from warmstart.data.checks.characters import HIDDEN, PLACEHOLDER
from warmstart.data.checks.collector import FindingCollector, shown
from warmstart.data.checks.misspellings import misspellings
from warmstart.data.split import fold_text
from warmstart.data.table import Table

MIN_ROWS = 20
"""With fewer rows, how often a label occurs means little."""
MAX_LABEL = 100
"""Characters of a label; a longer one looks like a text."""
MAX_SHARE = 0.8
"""Share of one label; above it, a model that always answers with it looks good."""
FEW_ROWS = 5
"""Rows of a label, below which there are not enough for the folds of a cross-validation."""
LEAK_SHARE, LEAK_RATIO = 0.1, 3
"""Texts leak their labels if this share contains its own, and this many times as many as contain another one."""
MIN_FRACTIONS, MIN_INTEGERS = 5, 50
"""From this many different fractions, or integers, labels look like a score."""
OUTLIER = 10
"""A score is an outlier from this many times the interquartile range away from the median."""

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")

Labels = dict[str, tuple[int, int]]
"""Each label with its number of rows and its first row."""


def labels_of(table: Table, answer: str) -> Labels:
    """Count the labels of a column with one label, or several, per row."""
    labels: Labels = {}
    for row, value in enumerate(table.column(answer)):
        for label in value if isinstance(value, list) else (value,):
            label = label["label"] if isinstance(label, dict) else label
            count, first = labels.get(label, (0, row))
            labels[label] = (count + 1, first)
    return labels


def check_labels(collector: FindingCollector, labels: Labels) -> None:
    """Check each label by itself and against the others."""
    for label, (count, first) in sorted(labels.items(), key=lambda item: item[1][1]):
        if PLACEHOLDER.fullmatch(label):
            message = f"the label {shown(label)} is a placeholder for a missing value, kept as a label"
            collector.add_row("label-na", first, message, count)
        if HIDDEN.search(label):
            message = f"the label {shown(label)} contains an invisible character"
            collector.add_row("label-hidden", first, message, count)
        if unicodedata.normalize("NFC", label) != label:
            collector.add_row("label-nfc", first, f"the label {label!a} is not in NFC form", count)
        if len(label) > MAX_LABEL:
            message = f"a label of {len(label):,} characters: {shown(label)}; the right column?"
            collector.add_row("label-long", first, message)
    _check_near_duplicates(collector, labels)


def check_shares(collector: FindingCollector, labels: Labels, rows: int, single: bool) -> None:
    """Check how often each label occurs in the training rows; `single`: a row has exactly one label."""
    most, (count, _) = max(labels.items(), key=lambda item: item[1][0])
    if rows >= MIN_ROWS and len(labels) > rows / 2:
        collector.add_table("label-many", f"{len(labels):,} labels in {rows:,} rows; is --label the right column?")
    else:
        for label, (number, first) in sorted(labels.items(), key=lambda item: item[1][1]):
            if number == 1:
                collector.add_row("label-single", first, f"only this row has the label {shown(label)}")
            elif number < FEW_ROWS and rows >= MIN_ROWS:
                collector.add_row("label-few", first, f"the label {shown(label)} has only {number} rows")
    if single and rows >= MIN_ROWS and count > MAX_SHARE * rows:
        message = (
            f"{count / rows:.1%} of the rows have the label {shown(most)}, so a model that always predicts it has that "
            "accuracy; look at macro F1 and MCC, and try --set task.class_weight=balanced"
        )
        collector.add_table("imbalance", message)
    if all(map(_NUMBER.fullmatch, labels)):
        whole = all(float(label).is_integer() for label in labels)
        if (not whole and len(labels) >= MIN_FRACTIONS) or (
            len(labels) >= MIN_INTEGERS and len(labels) > rows / MIN_ROWS
        ):
            message = f"the labels are {len(labels)} different numbers; to predict a number, pass --task score"
            collector.add_table("label-numbers", message)


def check_leaks(collector: FindingCollector, text: str, answer: str) -> None:
    """Report a label that is the text itself, and labels that many texts contain."""
    row = own = other = first = 0
    for texts, labels in collector.table.arrays([text, answer]):
        bare = [pc.utf8_lower(pc.utf8_trim_whitespace(array)) for array in (texts, labels)]
        for index in np.flatnonzero(pc.equal(*bare).to_numpy(zero_copy_only=False)):
            message = f"the label is the text: {shown(texts[int(index)].as_py())}"
            collector.add_row("label-is-text", row + int(index), message)
        bodies, names = bare[0].to_pylist(), bare[1].to_pylist()
        for number, (body, label) in enumerate(zip(bodies, names, strict=True)):
            if _contains(body, label):
                own, first = own + 1, first if own else row + number
            following = names[(number + 1) % len(names)]
            other += following != label and _contains(body, following)
        row += len(texts)
    if row >= MIN_ROWS and own >= LEAK_SHARE * row and own >= LEAK_RATIO * other:
        message = f"{own:,} of the {row:,} texts contain their label, this one first: a model can learn to copy it"
        collector.add_row("label-in-text", first, message, own)


def _contains(body: str, label: str) -> bool:
    """Whether a text contains a label as words of its own; in lower case both."""
    name = label.replace("_", " ")
    start = body.find(name) if len(name) > 2 else -1
    if start < 0:
        return False
    around = body[start - 1 : start] + body[start + len(name) : start + len(name) + 1]
    return not any(map(str.isalnum, around)) or not name.isascii()


def check_scores(collector: FindingCollector, answer: str) -> None:
    """Report scores that are all the same, and outliers."""
    scores = np.concatenate([array.to_numpy() for (array,) in collector.table.arrays([answer])])
    if len(scores) > 1 and scores.min() == scores.max():
        message = f"all {len(scores):,} scores are {scores[0]:g}; is --label the right column?"
        collector.add_table("score-same", message)
        return
    low, median, high = np.quantile(scores, [0.25, 0.5, 0.75])
    if high > low:
        far = np.flatnonzero(np.abs(scores - median) > OUTLIER * (high - low))
        half = f"half of them lie between {low:g} and {high:g}"
        collector.add_rows(
            "score-outlier", far, lambda row: f"the score {scores[row]:g} is far from the others: {half}"
        )


def _check_misspellings(collector: FindingCollector, labels: Labels) -> None:
    for rare, common in misspellings({label: count for label, (count, _) in labels.items()}):
        count, first = labels[rare]
        message = (
            f"the label {shown(rare)} ({count:,} rows) is perhaps a misspelling of {shown(common)} "
            f"({labels[common][0]:,} rows); if so, correct it"
        )
        collector.add_each("label-misspelt", first, message, count)


def _check_near_duplicates(collector: FindingCollector, labels: Labels) -> None:
    """Report labels that differ only in case, spacing, width or another compatible form."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(fold_text(label), []).append(label)
    pairs = []
    for group in groups.values():
        group.sort(key=lambda label: (-labels[label][0], labels[label][1]))
        pairs += [(labels[rare][1], rare, group[0]) for rare in group[1:]]
    _check_misspellings(collector, labels)
    for first, rare, common in sorted(pairs):
        spelling = " ".join(rare.split()).casefold() == " ".join(common.split()).casefold()
        counts = f"{labels[rare][0]:,} and {labels[common][0]:,} rows"
        message = f"the labels {shown(rare)} and {shown(common)} ({counts}) are nearly the same"
        collector.add_row("label-spelling" if spelling else "label-width", first, message, labels[rare][0])
