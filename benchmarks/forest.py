"""A forest plot of differences for a page of results: one line each, with its interval, and a mark at none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.experiments.sweep_plots import new_figure, save_figure

if TYPE_CHECKING:
    from warmstart.evaluation.statistics import MeanEstimate

CLEAR, UNCLEAR = "#3b528b", "#8a8f98"
"""Colours of differences whose interval is on one side of zero, and of others."""


def forest(
    differences: Mapping[str, MeanEstimate], path: Path, label: str, scale: float = 100, most: float = 0
) -> None:
    """Plot differences to an SVG file, the first on top.

    Args:
        scale: What differences are multiplied by, such as 100 for points.
        most: Where the axis ends on both sides; an interval beyond it ends in an arrow. 0 for as far as they reach.
    """
    figure, axes = new_figure(8, 1.0 + 0.32 * len(differences))
    names = list(differences)
    for height, name in enumerate(reversed(names)):
        one = differences[name]
        low, mean, high = (scale * value for value in (one.low, one.mean, one.high))
        colour = CLEAR if low > 0 or high < 0 else UNCLEAR
        axes.plot([low, high], [height, height], "-", color=colour, linewidth=1.6)
        axes.plot([mean], [height], "o", color=colour, markersize=5)
        for end in (end for end in (low, high) if most and abs(end) > most):
            place, mark = (most, ">") if end > 0 else (-most, "<")
            axes.plot([place], [height], mark, color=colour, markersize=5, clip_on=False)
    if most:
        axes.set_xlim(-most, most)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names[::-1])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(label)
    axes.grid(axis="x", linewidth=0.4)
    save_figure(figure, path)
