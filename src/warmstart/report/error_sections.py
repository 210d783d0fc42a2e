"""Sections on where the model errs, from `diagnosis.json`: confusion, calibration, slices, rows to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmstart.report.blocks import (
    MOST_LABELS,
    Block,
    Chart,
    Matrix,
    Prose,
    Section,
    Table,
    brief,
    first,
    interval,
    name_of,
    number,
    percent,
    without_folders,
)
from warmstart.report.charts import Dot, heat, intervals, lines
from warmstart.report.run_facts import Facts

SMALL = 12
"""Labels up to which the numbers of a confusion matrix stand in it."""


def confusion(facts: Facts) -> Section | None:
    """Which label is taken for which."""
    found = facts.diagnosis.get("confusion")
    if not found or not found["labels"]:
        return None
    labels, counts = [str(one) for one in found["labels"]], found["counts"]
    what = "entities" if facts.task == "tag" else "rows"
    blocks: list[Block] = []
    if len(labels) <= SMALL:
        blocks.append(_small(labels, counts, what))
    else:
        blocks.append(_large(labels, counts, what))
    return Section("confusion", "What is taken for what", blocks)


def _small(labels: Sequence[str], counts: Sequence[Sequence[int]], what: str) -> Matrix:
    cells = [[(count, _shade(count, sum(row))) for count in row] for row in counts]
    note = f"Counts are {what}. Rows: the data's answer; columns: the model's. Shaded by the share of its row."
    return Matrix("Confusion", "data ╲ model", labels, labels, cells, note)


def _shade(count: int, total: int) -> int:
    return 0 if not count else max(1, round(10 * count / total))


def _large(labels: Sequence[str], counts: Sequence[Sequence[int]], what: str) -> Chart:
    size = len(labels)
    pairs = [(counts[a][b], a, b) for a in range(size) for b in range(size) if a != b and counts[a][b]]
    pairs.sort(key=lambda one: (-one[0], one[1], one[2]))
    wrong = [sum(counts[a]) + sum(row[a] for row in counts) - 2 * counts[a][a] for a in range(size)]
    chosen = sorted(sorted(range(size), key=lambda a: -wrong[a])[:MOST_LABELS])
    place = {a: number for number, a in enumerate(chosen)}
    cells = [(-0.5 + place[b], place[a], 1.0, counts[a][b] / max(1, sum(counts[a]))) for a in chosen for b in chosen]
    names = [(float(place[a]), brief(labels[a], 25)) for a in chosen]
    shown, left = first(pairs, 20)
    rows = [[labels[a], labels[b], count, percent(count / max(1, sum(counts[a])))] for count, a, b in shown]
    table = Table("Most frequent confusions", ["data", "model", what, "share of the data's"], rows, left_out=left)
    most = f"the {len(chosen)} labels of {size} with most mistakes" if len(chosen) < size else f"{size} labels"
    about = (
        f"Rows are the data's answer, columns the model's, for {most}; a stronger colour is a larger share of the row."
    )
    side = 2.2 + 0.115 * len(chosen) if len(chosen) > 30 else 2.6 + 0.22 * len(chosen)
    return heat(
        "confusion",
        "Confusion",
        about,
        cells,
        (names, names),
        ("the model's answer", "the data's answer"),
        table,
        (side, side),
    )


def calibration(facts: Facts) -> Section | None:
    """Whether a confidence means what it says, and where to draw a line."""
    blocks: list[Block] = []
    if found := facts.diagnosis.get("calibration"):
        blocks.append(_reliability(found))
        fitted = f"Temperature {number(found['temperature'])}, fitted on {found.get('fitted_on', 'dev')}: "
        errors = f"expected calibration error {number(found['before']['ece'])} before"
        after = f", {number(found['after']['ece'])} after" if found.get("after") else ""
        blocks.append(Prose(f"{fitted}{errors}{after}."))
    if drawn := facts.diagnosis.get("thresholds"):
        blocks.append(_thresholds(drawn[:30]))
    return Section("calibration", "Is its confidence right?", blocks) if blocks else None


def _thresholds(drawn: Sequence[Mapping[str, Any]]) -> Table:
    """From which confidence to answer, to have a precision or to hold back a share."""
    rows = []
    for one in drawn:
        precise = one.get("precision") is not None
        wanted = f"precision {number(one['precision'])}" if precise else f"{percent(one['abstain'])} held back"
        never = one["confidence"] is None
        bounds = interval(one.get("low"), one.get("high"))
        start = "not reached" if never else one["confidence"]
        rows.append([wanted, start, None if never else percent(one["answered"]), one.get("measured"), bounds])
    columns = ["wanted", "answer from confidence", "rows answered", "precision then", "95% interval"]
    return Table("Where to draw the line", columns, rows)


def _reliability(found: Mapping[str, Any]) -> Chart:
    series, rows = {}, []
    for when in ("before", "after"):
        bins = [one for one in (found.get(when) or {}).get("bins", ()) if one["rows"]][:40]
        if bins:
            series[f"{when} scaling"] = [(one["confidence"], one["accuracy"]) for one in bins]
        rows += [
            [when, interval(one["low"], one["high"]), one["rows"], one["confidence"], one["accuracy"]] for one in bins
        ]
    table = Table("Reliability", ["scaling", "confidence from–to", "rows", "mean confidence", "accuracy"], rows)
    about = "Of answers given with some confidence, the share that is right; on the diagonal both are the same."
    return lines(
        "reliability", "Reliability", about, series, ("confidence", "share that is right"), table, diagonal=True
    )


def slices(facts: Facts) -> Section | None:
    """Kinds of row on which the model is worse than on the rest."""
    found = facts.diagnosis.get("slices")
    if not found:
        return None
    shown, left = first(found, 30)
    rows = [
        [
            one["by"],
            one["name"],
            one["rows"],
            one["value"],
            interval(one.get("low"), one.get("high")),
            one.get("rest"),
            one.get("p"),
            one.get("shown"),
        ]
        for one in shown
    ]
    columns = ["by", "slice", "rows", "score", "95% interval", "the rest", "p", "shown"]
    table = Table("Slices, worst first", columns, rows, "Shown: whether it differs from the rest beyond chance.", left)
    dots: list[Dot] = [
        (f"{one['by']}: {one['name']}", one["value"], one.get("low"), one.get("high"), []) for one in shown[:12]
    ]
    about = "The score on each kind of row with its 95% interval, worst first."
    return Section("slices", "Where it is worse", [intervals("slices", "Score by slice", about, dots, "score", table)])


def mistakes(facts: Facts) -> Section | None:
    """Wrong answers to read, the most confident first, and rows whose label may be wrong."""
    blocks: list[Block] = [
        Prose(f"Note: {without_folders(str(one))}.") for one in facts.diagnosis.get("notes", ())[:10]
    ]
    if found := facts.diagnosis.get("mistakes"):
        shown, left = first(found, 40)
        rows = [[one["text"], one["answer"], one["given"], one.get("confidence"), name_of(one["row"])] for one in shown]
        columns = ["text", "data", "model", "confidence", "row"]
        blocks.append(Table("Mistakes to read", columns, [_plain(row) for row in rows], left_out=left))
    wrong = facts.diagnosis.get("label_errors") or {}
    if found := wrong.get("rows"):
        shown, left = first(found, 40)
        rows = [[one["text"], one["answer"], one["suggested"], one.get("score"), name_of(one["row"])] for one in shown]
        columns = ["text", "data", "suggested", "score", "row"]
        table = Table(
            "Labels that may be wrong", columns, [_plain(row) for row in rows], str(wrong.get("how", "")), left
        )
        blocks.append(table)
    return Section("mistakes", "Errors to read", blocks) if blocks else None


def tables(facts: Facts) -> Section | None:
    """What is natural to the task."""
    found = facts.diagnosis.get("tables")
    if not found:
        return None
    blocks = []
    for one in found[:10]:
        shown, left = first(one["rows"])
        rows = [_plain(row) for row in shown]
        blocks.append(
            Table(str(one["title"]), [str(c) for c in one["columns"]], rows, str(one.get("note") or ""), left)
        )
    return Section("task", f"The task: {facts.task}", blocks)


def _plain(row: Sequence[Any]) -> list[Any]:
    """Cells that are text or numbers; answers may be lists or mappings, or nothing at all."""
    return [
        "(nothing)"
        if cell == ""
        else cell
        if cell is None or isinstance(cell, str | int | float)
        else ", ".join(_words(one) for one in cell)
        if isinstance(cell, list)
        else _words(cell)
        for cell in row
    ]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}: {one}" for key, one in value.items())
    return str(value)
