"""Sections on the model's errors, from `diagnosis.json`: confusion matrix, calibration, slices, mistakes and why."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.evaluation.records.diagnosis import Calibration, ConfusionMatrix, Mistake, Threshold
from warmstart.report.blocks import (
    MOST_LABELS,
    Block,
    ChartBlock,
    MatrixBlock,
    Paragraph,
    Section,
    TableBlock,
    WordsBlock,
    brief,
    first,
    interval,
    name_of,
    number,
    percent,
    without_folders,
)
from warmstart.report.charts import ChartTexts, HeatCell, IntervalRow, heat_map, intervals
from warmstart.report.data_charts import reliability
from warmstart.report.run_facts import RunFacts

SMALL = 12
"""The most labels of a confusion matrix that shows its numbers."""
EXPLAINED = 20
"""The most mistakes whose words are shown."""


def confusion(facts: RunFacts) -> Section | None:
    """The confusion matrix."""
    matrix = facts.diagnosis.confusion if facts.diagnosis else None
    if matrix is None or not matrix.labels:
        return None
    unit = facts.task_class.confusion_unit
    block: Block = _small(matrix, unit) if len(matrix.labels) <= SMALL else _large(matrix, unit)
    return Section("confusion", "Confusion matrix", [block])


def _small(matrix: ConfusionMatrix, unit: str) -> MatrixBlock:
    cells = [[(count, _shade(count, sum(row))) for count in row] for row in matrix.counts]
    note = f"Counts are {unit}. Rows: the true label; columns: the prediction. Shaded by the share of its row."
    return MatrixBlock("Confusion matrix", "true ╲ predicted", matrix.labels, matrix.labels, cells, note)


def _shade(count: int, total: int) -> int:
    return 0 if not count else max(1, round(10 * count / total))


def _large(matrix: ConfusionMatrix, unit: str) -> ChartBlock:
    labels, counts, size = matrix.labels, matrix.counts, len(matrix.labels)
    pairs = [(counts[a][b], a, b) for a in range(size) for b in range(size) if a != b and counts[a][b]]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    wrong = [sum(counts[a]) + sum(row[a] for row in counts) - 2 * counts[a][a] for a in range(size)]
    chosen = sorted(sorted(range(size), key=lambda a: -wrong[a])[:MOST_LABELS])
    position = {a: index for index, a in enumerate(chosen)}
    cells = [
        HeatCell(-0.5 + position[b], position[a], 1.0, counts[a][b] / max(1, sum(counts[a])))
        for a in chosen
        for b in chosen
    ]
    names = [(float(position[a]), brief(labels[a], 25)) for a in chosen]
    shown, left = first(pairs, 20)
    rows = [[labels[a], labels[b], count, percent(count / max(1, sum(counts[a])))] for count, a, b in shown]
    columns = ["true label", "prediction", unit, "share of the true label"]
    table = TableBlock("Most frequent confusions", columns, rows, left_out=left)
    most = f"the {len(chosen)} labels of {size} with most mistakes" if len(chosen) < size else f"{size} labels"
    about = f"Rows are true labels, columns predictions, for {most}; a stronger colour is a larger share of the row."
    side = 2.2 + 0.115 * len(chosen) if len(chosen) > 30 else 2.6 + 0.22 * len(chosen)
    texts = ChartTexts("confusion", "Confusion matrix", about, table)
    return heat_map(texts, cells, (names, names), ("prediction", "true label"), (side, side))


def calibration(facts: RunFacts) -> Section | None:
    """Whether confidence can be trusted, and which thresholds to use."""
    if facts.diagnosis is None:
        return None
    blocks: list[Block] = []
    if calibration := facts.diagnosis.calibration:
        blocks.append(_reliability(calibration))
        fitted = f"Temperature {number(calibration.temperature)}, fitted on {calibration.fitted_on}: "
        errors = f"expected calibration error {number(calibration.before.ece)} before"
        blocks.append(Paragraph(f"{fitted}{errors}, {number(calibration.after.ece)} after."))
    if thresholds := facts.diagnosis.thresholds:
        blocks.append(_thresholds(thresholds[:30]))
    return Section("calibration", "Calibration", blocks) if blocks else None


def _thresholds(thresholds: Sequence[Threshold]) -> TableBlock:
    """The confidence to answer from, for a target precision or a share of rows to abstain on."""
    rows: list[list[object]] = []
    for threshold in thresholds:
        if threshold.precision is not None:
            target = f"precision {number(threshold.precision)}"
        else:
            target = f"abstain on {percent(threshold.abstain or 0.0)}"
        never = threshold.confidence is None
        bounds = interval(threshold.low, threshold.high)
        confidence = "not reached" if never else threshold.confidence
        rows.append([target, confidence, None if never else percent(threshold.answered), threshold.measured, bounds])
    columns = ["target", "confidence threshold", "rows answered", "precision", "95% interval"]
    return TableBlock("Confidence thresholds", columns, rows)


def _reliability(calibration: Calibration) -> ChartBlock:
    series: dict[str, list[tuple[float, float]]] = {}
    counts: dict[str, list[tuple[float, float, int]]] = {}
    rows: list[list[object]] = []
    for when, measured in (("before", calibration.before), ("after", calibration.after)):
        bins = [part for part in measured.bins if part.rows][:40]
        if bins:
            series[f"{when} scaling"] = [(part.confidence, part.accuracy) for part in bins]
            counts[f"{when} scaling"] = [(part.low, part.high, part.rows) for part in bins]
        rows += [[when, interval(part.low, part.high), part.rows, part.confidence, part.accuracy] for part in bins]
    columns = ["temperature scaling", "confidence", "rows", "mean confidence", "accuracy"]
    about = (
        "The accuracy of predictions by their confidence; on the diagonal both are equal. Below, the rows of each bin: "
        "a point of few rows says little."
    )
    texts = ChartTexts("reliability", "Reliability diagram", about, TableBlock("Reliability", columns, rows))
    return reliability(texts, series, counts)


def slices(facts: RunFacts) -> Section | None:
    """Slices on which the model is worse than on the rest."""
    slices = facts.diagnosis.slices if facts.diagnosis else None
    if not slices:
        return None
    shown, left = first(slices, 30)
    rows = [
        [
            part.by,
            part.name,
            part.rows,
            part.value,
            interval(part.low, part.high),
            part.rest,
            part.p,
            part.significant,
        ]
        for part in shown
    ]
    columns = ["by", "slice", "rows", "score", "95% interval", "other rows", "p", "significant"]
    note = "Significant: whether the slice is worse than the other rows beyond chance."
    about = "The score on each slice with its 95% interval, worst first."
    table = TableBlock("Slices, worst first", columns, rows, note, left)
    dots = [IntervalRow(f"{part.by}: {part.name}", part.value, part.low, part.high) for part in shown[:12]]
    chart = intervals(ChartTexts("slices", "Score by slice", about, table), dots, "score")
    return Section("slices", "Worst slices", [chart])


def mistakes(facts: RunFacts) -> Section | None:
    """Mistakes, the most confident first, and likely label errors."""
    diagnosis = facts.diagnosis
    if diagnosis is None:
        return None
    blocks: list[Block] = [Paragraph(f"Note: {without_folders(note)}.") for note in diagnosis.notes[:10]]
    if diagnosis.mistakes:
        shown, left = first(diagnosis.mistakes, 40)
        rows = [[row.text, row.truth, row.prediction, row.confidence, name_of(row.row)] for row in shown]
        columns = ["text", "true label", "prediction", "confidence", "row"]
        if any(row.words and not row.words.weights for row in shown):  # the others are under Explanations
            columns.append("words behind the prediction")
            rows = [[*cells, str(row.words or "–")] for cells, row in zip(rows, shown, strict=True)]
        blocks.append(TableBlock("Most confident mistakes", columns, [_plain(row) for row in rows], left_out=left))
    errors = diagnosis.label_errors
    if errors is not None and errors.rows:
        suspects, left = first(errors.rows, 40)
        rows = [[row.text, row.label, row.suggested, row.score, name_of(row.row)] for row in suspects]
        columns = ["text", "label", "suggested", "score", "row"]
        blocks.append(TableBlock("Likely label errors", columns, [_plain(row) for row in rows], errors.how, left))
    return Section("mistakes", "Mistakes", blocks) if blocks else None


def explanations(facts: RunFacts) -> Section | None:
    """The words behind mistakes, shaded by how much each speaks for the wrong answer."""
    mistakes = facts.diagnosis.mistakes if facts.diagnosis else None
    explained = [mistake for mistake in mistakes or () if mistake.words and mistake.words.weights]
    if not explained:
        return None
    about = (
        "Why the model gave its most confident wrong answers: blue words speak for the answer, orange ones against it, "
        "by integrated gradients. Each explanation was tested: without the words it ranks first, the answer must get "
        "weaker than without random ones."
    )
    return Section("explanations", "Explanations", [Paragraph(about), *map(_explanation, explained[:EXPLAINED])])


def _explanation(mistake: Mistake) -> WordsBlock:
    assert mistake.words is not None
    truth, prediction = (str(_cell(answer)) for answer in (mistake.truth, mistake.prediction))
    sure = "" if mistake.confidence is None else f", confidence {number(mistake.confidence)}"
    caption = f"{prediction} instead of {truth}{sure} ({name_of(mistake.row)})"
    note = "Passed the test." if mistake.words.tested else "No better than random words: do not rely on it."
    shades = [(word, round(10 * max(-1.0, min(1.0, weight)))) for word, weight in mistake.words.weights or ()]
    return WordsBlock(caption, shades, note)


def tables(facts: RunFacts) -> Section | None:
    """The tables of the task itself."""
    tables = facts.diagnosis.tables if facts.diagnosis else None
    if not tables:
        return None
    blocks = []
    for table in tables[:10]:
        shown, left = first(table["rows"])
        blocks.append(TableBlock(table["title"], table["columns"], list(map(_plain, shown)), table["note"], left))
    return Section("task", "Kinds of errors", blocks)


def _plain(row: Sequence[object]) -> list[object]:
    """Cells that are text or numbers; answers may be lists or mappings, or empty."""
    return [_cell(value) for value in row]


def _cell(value: object) -> object:
    if value == "":
        return "(empty)"
    if value is None or isinstance(value, str | int | float):
        return value
    return ", ".join(map(_words, value)) if isinstance(value, list) else _words(value)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}: {inner}" for key, inner in value.items())
    return str(value)
