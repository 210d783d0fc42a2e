"""The chart of a study: how far each method is behind the best one, a dot per cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warmstart.experiments.sweep_plots import new_figure, save_figure
from warmstart.studies.regret import CellMeans, mean_regret

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
