"""Plots of a sweep: how its best value improved, and which fields mattered."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import MissingExtraError
from warmstart.storage.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_history(values: Mapping[int, float], name: str, path: Path, minimize: bool = False) -> None:
    """Plot each trial's value, and the best until then, to a file.

    Args:
        values: By number of trial.
        name: What the values are.
    """
    figure, axes = new_figure(7, 3)
    numbers = sorted(values)
    best = list(accumulate((values[number] for number in numbers), min if minimize else max))
    axes.plot(numbers, [values[number] for number in numbers], "o", color="#3b528b", markersize=4, label="each trial")
    axes.step(numbers, best, where="post", color="#5ec962", label="best so far")
    axes.set_xlabel("trial")
    axes.set_ylabel(name)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def plot_importances(importances: Mapping[str, float], path: Path) -> None:
    """Plot the share of each field, the largest on top, to a file."""
    figure, axes = new_figure(7, 0.8 + 0.4 * len(importances))
    names = list(importances)[::-1]
    axes.barh(names, [importances[name] for name in names], color="#3b528b")
    axes.set_xlabel("share of the variance of values")
    axes.set_xlim(0, 1)
    save_figure(figure, path)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure of so many inches, with one pair of axes."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("a plot needs matplotlib: pip install 'warmstart[plot]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, the same bytes for the same numbers."""
    import matplotlib
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "warmstart"}), atomic_file(path) as staging:
        figure.savefig(staging, format="svg", facecolor="white", metadata={"Date": None})
    pyplot.close(figure)
