"""The chart of a study: scores along an axis of numbers, or how far each method is behind the best one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from warmstart.evaluation.statistics import MeanEstimate, over_seeds
from warmstart.experiments.sweep_plots import new_figure, save_figure
from warmstart.recipe.study import Study
from warmstart.recipe.study_claims import StudyCurve
from warmstart.studies.cells import Cell
from warmstart.studies.regret import CellMeans, Results, mean_regret

DOT, MEAN = "#3b528b", "#d1495b"


def plot_regret(cells: Sequence[CellMeans], methods: Sequence[str], path: Path) -> None:
    """Plot to an SVG file; the method with the smallest mean is on top."""
    names = sorted(methods, key=lambda name: -mean_regret(cells, name))
    figure, axes = new_figure(8, 1.2 + 0.5 * len(names))
    for height, name in enumerate(names):
        regrets = [100 * regret for cell in cells if (regret := cell.regret(name)) is not None]
        axes.plot(regrets, [height] * len(regrets), "o", color=DOT, markersize=5, alpha=0.45, markeredgewidth=0)
        mean = 100 * mean_regret(cells, name)
        axes.plot([mean], [height], "|", color=MEAN, markersize=22, markeredgewidth=3)
        axes.annotate(
            f"{mean:.1f}", (mean, height), xytext=(0, 13), textcoords="offset points", ha="center", color=MEAN
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.set_xlim(left=-1)
    axes.set_xlabel("points behind the best method of the cell (dots: cells, bars: means)")
    axes.grid(axis="x", linewidth=0.4)
    save_figure(figure, path)


Points = dict[float, MeanEstimate]


def curves(study: Study, curve: StudyCurve, results: Results) -> dict[str, Points]:
    """The lines of a study's curve, each with the mean over seeds at its numbers."""
    by_size = bool(set(curve.points) & set(study.sizes))
    lines: dict[str, Points] = {}
    for cell, rows in results.items():
        for method in dict.fromkeys(row.variant for row in rows):
            number = curve.points.get(cell.size if by_size else method)
            if number is None:
                continue
            values = [row.value for row in rows if row.variant == method and row.value == row.value]
            own = method if by_size else curve.lines.get(method, "")
            lines.setdefault(_line_name(study, cell, own), {})[number] = over_seeds(values)
    return lines


def _line_name(study: Study, cell: Cell, own: str) -> str:
    """What tells a line from the others: the set where there are several, and the method or a name of its own."""
    return ", ".join(part for part in (cell.set if len(study.sets) > 1 or not own else "", own) if part)


def plot_curves(lines: Mapping[str, Points], curve: StudyCurve, path: Path) -> None:
    """Plot the lines to an SVG file, each mean with its 95% interval where there are two seeds."""
    figure, axes = new_figure(8, 4.5)
    lowest = min((100 * mean.mean for points in lines.values() for mean in points.values()), default=0.0)
    for name, points in lines.items():
        numbers = sorted(points)
        means = np.array([100 * points[number].mean for number in numbers])
        halves = np.nan_to_num([100 * (points[number].high - points[number].mean) for number in numbers])
        axes.errorbar(numbers, means, halves, marker="o", markersize=4, linewidth=1.4, capsize=2, label=name)
    if curve.log and min(curve.points.values()) > 0:
        axes.set_xscale("log")
        ticks = sorted(set(curve.points.values()))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    axes.set_xlabel(curve.label)
    axes.set_ylabel("score, %")
    # The interval of a few seeds reaches further than any score.
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, min(lowest, 0) - 2), min(high, 102))
    axes.grid(linewidth=0.4)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path)
