"""A diagnosis on the screen: short tables, what is missing in them in `diagnosis.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmstart.cli import screen

WIDEST = 12
"""Labels up to which a confusion matrix fits on a screen."""
LISTED = 8
"""Slices and mistakes that are shown."""
TEXT = 60
"""Characters of a text that are shown."""


def show(run: str, found: Mapping[str, Any]) -> None:
    """All that a diagnosis says, in short."""
    say(f"{run}: {found['task']}, {found['rows']:,} {found['part']} rows")
    for note in found["notes"]:
        say(note)
    small = "confusion" in found and len(found["confusion"]["labels"]) <= WIDEST
    if small:
        _confusion(found["confusion"])
    for table in found.get("tables", ()):
        if small and table["title"] == "Confusions":
            continue  # the matrix shows them
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"][:LISTED]]
        if rows:
            screen.grid(f"{table['title']}: {table['note']}", rows)
    if found.get("slices"):
        _slices(found["slices"])
    if found.get("mistakes"):
        screen.grid("Mistakes to read first", [_short(row) for row in found["mistakes"][:LISTED]])
    if "calibration" in found:
        _calibration(found["calibration"])
        _thresholds(found["thresholds"])
    if "label_errors" in found:
        errors = found["label_errors"]
        say(f"{errors['found']:,} of {errors['looked_at']:,} training labels look wrong: {errors['how']}")
        if errors["rows"]:
            screen.grid("Labels to look at first", [_short(row) for row in errors["rows"][:LISTED]])
    say(f"All of it: {run}/diagnosis.json")


def say(text: str) -> None:
    """A line of plain text."""
    screen.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _confusion(found: Mapping[str, Any]) -> None:
    rows = [
        {"in the data": label, **dict(zip(found["labels"], counts, strict=True))}
        for label, counts in zip(found["labels"], found["counts"], strict=True)
    ]
    screen.grid("Given, by what is in the data", rows)


def _slices(found: Sequence[Mapping[str, Any]]) -> None:
    shown = sum(one["shown"] for one in found)
    told = f"{shown} worse than the rest beyond chance" if shown else "none is worse than the rest beyond chance"
    rows = [
        {
            "slice": f"{one['by']}: {one['name']}"[:TEXT],
            "rows": one["rows"],
            "score": one["value"],
            "95% interval": f"{one['low']:.3f} to {one['high']:.3f}",
            "rest": one["rest"],
            "p": f"{one['p']:.3f}" if one["p"] >= 0.001 else "< 0.001",
        }
        for one in found[:LISTED]
    ]
    screen.grid(f"Worst slices of {len(found)}: {told}", rows)


def _calibration(found: Mapping[str, Any]) -> None:
    kept = "" if found["stored"] == 1.0 else f"; kept with the model: {found['stored']:.3f}"
    say(
        f"Calibration error {found['before']['ece']:.3f}, {found['after']['ece']:.3f} at temperature "
        f"{found['temperature']:.3f} (fitted on {found['fitted_on']}, {found['rows']:,} other rows measured){kept}"
    )


def _thresholds(found: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        {
            "wanted": f"precision {one['precision']:g}" if "precision" in one else f"hold back {one['abstain']:g}",
            "least confidence": "never" if one["confidence"] is None else one["confidence"],
            "answered": one["answered"],
            "precision": one["measured"],
        }
        for one in found
    ]
    screen.grid(f"Thresholds, chosen on {found[0]['chosen_on']}, measured on other rows", rows)


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the folder of its file, and of which long texts are cut, with a mark."""
    row = {**row, "row": row["row"].rpartition("/")[2]}
    return {name: f"{one[:TEXT]}…" if isinstance(one, str) and len(one) > TEXT else one for name, one in row.items()}
