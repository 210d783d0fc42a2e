"""The page of a study: its conclusion, a chart, tables with both intervals, what it cost and what it is unlike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from warmstart.evaluation.comparison import Comparison, compare_all, summarize
from warmstart.evaluation.statistics import MeanEstimate
from warmstart.recipe.study import Study
from warmstart.runtime.environment import environment
from warmstart.storage.files import write_text
from warmstart.studies.cells import Cell
from warmstart.studies.chart import curves, plot_curves, plot_regret
from warmstart.studies.claims import ABOUT as ABOUT_CLAIMS
from warmstart.studies.claims import Verdict, judge
from warmstart.studies.figures import KeptResult
from warmstart.studies.full_size import full_size_cost
from warmstart.studies.other_encoders import other_encoders_table
from warmstart.studies.published import mean_with_interval, published_table
from warmstart.studies.regret import CellMeans, Results, ahead_of, cell_means, mean_regret, worst_cell

READING = "reading.md"
"""What the tables say, in plain words, written by hand after looking at them; in the study's folder."""
ABOUT = """
Every method has the same training rows and the same test rows{draws}. A mean is
followed by its 95% confidence interval and, in parentheses, the number of seeds{failed}. \
Each difference has two intervals:
would it show up with other training rows and seeds, and on other test rows of this kind? p is the larger of two p
values (paired t test over seeds, permutation test over rows), corrected for the number of comparisons of the cell
(Holm); it is bold where the difference is significant. CPU seconds are those of training and predicting.
""".strip()
FAILED = """,
and of those that *failed*, being no better than the same answer for every row or hardly scoring at all"""


def write_study_page(
    study: Study,
    folder: Path,
    results: Results,
    page: Path,
    command: str,
    others: Mapping[str, Results] | None = None,
) -> None:
    """Write a study's page, and its chart beside it.

    Args:
        folder: The study's folder.
        page: A Markdown file; the chart has its name.
        command: What measures the study, for the last line.
        others: Results with other encoders, by the name of each.
    """
    reading = folder / READING
    blocks = [
        f"# {study.title}",
        "" if results else f"Nothing of this is measured yet; `{command}` measures it.",
        reading.read_text(encoding="utf-8").strip() if reading.is_file() else "",
        study.about.strip(),
        _claims(study, results),
        *_chart(study, results, page.with_suffix(".svg")),
        published_table(study, results),
        _source(study),
        _about(study, results),
        *(_table(study, cell, rows) for cell, rows in results.items()),
        other_encoders_table(study, others or {}),
    ]
    body = "\n\n".join([*(block for block in blocks if block), ""])
    # A page that would only get another date stays as it is: its figures are those of that day and machine.
    if not page.is_file() or not page.read_text(encoding="utf-8").startswith(f"{body}*"):
        write_text(page, f"{body}{_provenance(command, results)}\n")


def _about(study: Study, results: Results) -> str:
    """How the tables are read; nothing without any."""
    fixed = all(study.sizes[cell.size].fixed for cell in results)
    draws = ", and so has every seed" if fixed else "; each seed draws its own training rows"
    failed = FAILED if any(row.failed for rows in results.values() for row in rows) else ""
    return ABOUT.replace("{draws}", draws).replace("{failed}", failed) if results else ""


def _claims(study: Study, results: Results) -> str:
    """A row for each claim, with its verdict."""
    if not study.claims:
        return ""
    lines = ["| claim | verdict | what was measured |", "| --- | --- | --- |"]
    for verdict in judge(study, results):
        source = verdict.claim.source
        says = f"{verdict.claim.says} ({source})" if source else verdict.claim.says
        lines.append(f"| {says} | **{verdict.word}** | {verdict.details} |")
    return "\n".join([*lines, "", ABOUT_CLAIMS])


def _chart(study: Study, results: Results, chart: Path) -> list[str]:
    """The chart, which is written beside the page, and the table of how far methods are behind over several cells."""
    if not results:
        return ["Nothing is measured yet."]
    means = cell_means(results)
    methods = [name for name in study.compared() if any(name in cell.means for cell in means)]
    if study.curve is not None and (lines := curves(study, study.curve, results)):
        plot_curves(lines, study.curve, chart)
        about = f"Scores over {study.curve.label}"
    elif means:
        plot_regret(means, methods, chart)
        about = "Points behind the best method of each cell"
    else:
        return ["No cell has figures of two methods with the same seed, so there is nothing to compare yet."]
    return [f"![{about}]({chart.name})", *([_summary(study, means, methods)] if len(means) > 1 else [])]


def _source(study: Study) -> str:
    """What the study redoes, what is unlike it here, and what the original would cost."""
    parts = [
        f"**Redone from:** {study.source.strip()}" if study.source else "",
        f"**{'Unlike the source' if study.source else 'Note'}:** {study.unlike.strip()}" if study.unlike else "",
        f"**Full size:** {full_size_cost(study.full_size)}" if study.full_size else "",
    ]
    return "\n\n".join(part for part in parts if part)


def summary(study: Study, results: Results) -> dict[str, object]:
    """The closing figures of the method that a study is about."""
    means = cell_means(results)
    worst = worst_cell(means, study.subject)
    return {
        "mean_regret": _points(mean_regret(means, study.subject)),
        "worst_cell": None if worst is None else [worst[0].name, _points(worst[1])],
        "cells": len(means),
        "regrets": {name: _points(mean_regret(means, name)) for name in _names(means)},
        **({"claims": [_verdict(one) for one in judge(study, results)]} if study.claims else {}),
    }


def _verdict(one: Verdict) -> dict[str, str]:
    return {"says": one.claim.says, "verdict": one.word, "measured": one.details}


def _names(means: Sequence[CellMeans]) -> list[str]:
    return list(dict.fromkeys(name for cell in means for name in cell.means))


def _points(value: float) -> float | None:
    return None if value != value else round(100 * value, 2)


def _summary(study: Study, means: Sequence[CellMeans], methods: Sequence[str]) -> str:
    """Regret of each method, over all cells and over each kind of set."""
    kinds = {
        "all cells": list(means),
        "sets that rules were found on": [cell for cell in means if study.sets[cell.cell.set].finding],
        "sets that were only measured": [cell for cell in means if not study.sets[cell.cell.set].finding],
    }
    shown = {name: cells for name, cells in kinds.items() if cells and (name == "all cells" or len(cells) < len(means))}
    lines = [
        f"| method | cells | {' | '.join(f'regret, {name}' for name in shown)} | {study.subject} is ahead by |",
        f"| --- | ---: | {' | '.join('---:' for _ in shown)} | ---: |",
    ]
    for method in sorted(methods, key=lambda name: mean_regret(means, name)):
        regrets = " | ".join(f"{100 * mean_regret(cells, method):.1f}" for cells in shown.values())
        ahead = "–" if method == study.subject else _signed(ahead_of(means, study.subject, method))
        count = sum(method in cell.means for cell in means)
        lines.append(f"| {method} | {count} | {regrets} | {ahead} |")
    return "\n".join(lines)


def _table(study: Study, cell: Cell, rows: Sequence[KeptResult]) -> str:
    """The methods on one cell, the best first."""
    one, size = study.sets[cell.set], study.sizes[cell.size]
    by_method = {
        name: [row for row in rows if row.variant == name] for name in dict.fromkeys(row.variant for row in rows)
    }
    against = {each.variant: each for each in compare_all(list(rows), study.subject)}
    headline = next((row.headline for row in rows if row.headline), "")
    lines = [
        f"## {cell.set}, {size.about or cell.size}",
        "",
        one.about,
        "",
        f"| method | {headline} | behind or ahead of {study.subject}, over seeds | over test rows | p | CPU seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, own in sorted(by_method.items(), key=lambda pair: -summarize(pair[1]).all.mean):
        seconds = sum(row.cpu_seconds for row in own) / len(own)
        cost = "–" if seconds != seconds else f"{seconds:.0f}"
        lines.append(f"| {name} | {mean_with_interval(summarize(own))} | {_difference(against.get(name))} | {cost} |")
    return "\n".join(lines)


def _difference(one: Comparison | None) -> str:
    if one is None:
        return "– | – | –"
    rows = f"{100 * one.rows.low:+.1f} to {100 * one.rows.high:+.1f}" if one.rows else "–"
    p = "–" if one.p_corrected != one.p_corrected else f"{one.p_corrected:.3f}"
    return f"{_signed(one.seeds)} | {rows} | {f'**{p}**' if one.significant else p}"


def _signed(estimate: MeanEstimate) -> str:
    if not estimate.count:
        return "–"
    bounds = f" ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f})" if estimate.count > 1 else ""
    return f"{100 * estimate.mean:+.1f}{bounds}"


def _provenance(command: str, results: Results) -> str:
    here = environment()
    versions = ", ".join(f"{name} {here['versions'][name]}" for name in ("torch", "transformers"))
    seconds = [row.cpu_seconds for rows in results.values() for row in rows if row.cpu_seconds == row.cpu_seconds]
    count = sum(map(len, results.values()))
    precisions = Counter(row.precision for rows in results.values() for row in rows if row.precision)
    time = f" in {sum(seconds) / 3600:.1f} hours of CPU time" if seconds else ""
    in_precision = "".join(f", {number} in {name} precision" for name, number in sorted(precisions.items()))
    return (
        f"*Measured by `{command}`, {count} measurements{time}{in_precision}; written on "
        f"{date.today().isoformat()}: Python {here['python']}, {versions}; {here['system']}, {here['processor']}.*"
    )
