"""A diagnosis as short tables; `diagnosis.json` has all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from warmstart.cli import screen
from warmstart.evaluation.records.diagnosis import (
    Calibration,
    ConfusionMatrix,
    Diagnosis,
    LabelError,
    LabelErrors,
    Mistake,
    Slice,
    Threshold,
)

WIDEST = 12
"""The most labels of a confusion matrix that is printed."""
LISTED = 8
"""Slices and mistakes that are printed."""
TEXT = 60
"""Characters of a text that are printed."""


def show(run: str, diagnosis: Diagnosis) -> None:
    """Print a diagnosis in short."""
    say(f"{run}: {diagnosis.task}, {diagnosis.rows:,} {diagnosis.part} rows")
    for note in diagnosis.notes:
        say(note)
    small = diagnosis.confusion is not None and len(diagnosis.confusion.labels) <= WIDEST
    if diagnosis.confusion is not None and small:
        _confusion(diagnosis.confusion)
    for table in diagnosis.tables or ():
        if small and table["title"] == "Confusions":
            continue  # the matrix shows them
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"][:LISTED]]
        if rows:
            screen.grid(f"{table['title']}: {table['note']}", rows)
    if diagnosis.slices:
        _slices(diagnosis.slices)
    if diagnosis.mistakes:
        screen.grid("Most confident mistakes", _mistakes(diagnosis.mistakes[:LISTED]))
    if diagnosis.calibration is not None:
        _calibration(diagnosis.calibration)
    if diagnosis.thresholds:
        _thresholds(diagnosis.thresholds)
    if diagnosis.label_errors is not None:
        _label_errors(diagnosis.label_errors)
    say(f"Everything: {run}/diagnosis.json")


def say(text: str) -> None:
    """A line of plain text."""
    screen.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _confusion(matrix: ConfusionMatrix) -> None:
    rows = [
        {"label": label, **dict(zip(matrix.labels, counts, strict=True))}
        for label, counts in zip(matrix.labels, matrix.counts, strict=True)
    ]
    screen.grid("Confusion matrix: true labels down, predictions across", rows)


def _slices(slices: Sequence[Slice]) -> None:
    worse = sum(part.significant for part in slices)
    summary = f"{worse or 'none'} significantly worse than the rest"
    rows = [
        {
            "slice": f"{part.by}: {part.name}"[:TEXT],
            "rows": part.rows,
            "score": part.value,
            "95% interval": f"{part.low:.3f} to {part.high:.3f}",
            "rest": part.rest,
            "p": f"{part.p:.3f}" if part.p >= 0.001 else "< 0.001",
        }
        for part in slices[:LISTED]
    ]
    screen.grid(f"Worst slices of {len(slices)}: {summary}", rows)


def _calibration(calibration: Calibration) -> None:
    saved = "" if calibration.stored == 1.0 else f"; saved with the model: {calibration.stored:.3f}"
    say(
        f"Expected calibration error {calibration.before.ece:.3f}, {calibration.after.ece:.3f} at temperature "
        f"{calibration.temperature:.3f} (fitted on {calibration.fitted_on}, measured on {calibration.rows:,} other "
        f"rows){saved}"
    )


def _thresholds(thresholds: Sequence[Threshold]) -> None:
    rows = [
        {
            "target": _target(threshold),
            "threshold": "not reached" if threshold.confidence is None else threshold.confidence,
            "answered": threshold.answered,
            "precision": threshold.measured,
        }
        for threshold in thresholds
    ]
    screen.grid(f"Confidence thresholds, chosen on {thresholds[0].chosen_on}, measured on other rows", rows)


def _target(threshold: Threshold) -> str:
    if threshold.precision is not None:
        return f"precision {threshold.precision:g}"
    return f"abstain on {threshold.abstain:.0%}"


def _label_errors(errors: LabelErrors) -> None:
    say(f"{errors.count:,} of {errors.checked:,} training labels may be wrong: {errors.how}")
    if errors.rows:
        screen.grid("Likely label errors", [_short(row) for row in errors.rows[:LISTED]])


def _mistakes(mistakes: Sequence[Mistake]) -> list[dict[str, object]]:
    rows = [_short(mistake) for mistake in mistakes]
    if any(mistake.words for mistake in mistakes):
        for row, mistake in zip(rows, mistakes, strict=True):
            row["words behind the prediction"] = str(mistake.words or "–")
    return rows


def _short(record: Mistake | LabelError) -> dict[str, object]:
    """A row without the folder of its file, and with long texts truncated."""
    row = {**asdict(record), "row": record.row.rpartition("/")[2]}
    row.pop("words", None)
    return {name: _shorten(value) for name, value in row.items()}


def _shorten(value: object) -> object:
    return f"{value[:TEXT]}…" if isinstance(value, str) and len(value) > TEXT else value
