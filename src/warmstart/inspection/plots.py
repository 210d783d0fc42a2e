"""Curves over a training as an image: several panels, in each a line for each name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from warmstart.errors import MissingExtraError
from warmstart.storage.files import atomic_file

Numbers = Sequence[float]
Line = tuple[Numbers, Numbers] | tuple[Numbers, Numbers, Numbers, Numbers]
"""Steps, a value at each, and the ends of its interval where there is one."""
COLUMNS = 2
"""Panels in a row."""


def draw(panels: Mapping[str, Mapping[str, Line]], path: Path, legend: str = "", across: str = "steps") -> None:
    """Draw panels to a file, in the format of its suffix (svg, png, pdf).

    Args:
        panels: By title, the lines of each by name; a name has the same colour in all panels.
        legend: The title of the legend.
        across: The label of the x axis.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("a plot needs matplotlib: pip install 'warmstart[plot]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    rows = -(-len(panels) // COLUMNS)
    figure, axes = pyplot.subplots(
        rows, COLUMNS, figsize=(9, 3 * rows), sharex=True, squeeze=False, layout="constrained"
    )
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    shades = pyplot.get_cmap("viridis")
    colours = {name: shades(0.9 * index / max(len(names) - 1, 1)) for index, name in enumerate(names)}
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes.flat[max(0, len(panels) - COLUMNS) : len(panels)]:
        axis.tick_params(labelbottom=True)  # also where the row below has no panel
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for name, (steps, values, *interval) in lines.items():
            axis.plot(steps, values, label=name, color=colours[name], linewidth=1.5)
            if interval:
                axis.fill_between(steps, *interval, color=colours[name], alpha=0.2, linewidth=0)
        axis.set_title(title, fontsize=11)
        axis.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            axis.legend(title=legend, frameon=False, fontsize=8)
    figure.supxlabel(across, fontsize=10)
    # The same bytes for the same numbers.
    with matplotlib.rc_context({"svg.hashsalt": "warmstart"}):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        with atomic_file(path) as staging:
            figure.savefig(staging, format=path.suffix[1:] or "png", facecolor="white", metadata=metadata)
    pyplot.close(figure)
