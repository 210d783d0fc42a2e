"""Curves over a training as a picture: several panels, in each a line for each name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from warmstart.errors import MissingExtra

Line = tuple[Sequence[float], Sequence[float]]
"""Steps, and a value at each."""
WIDE = 2
"""Panels in a row."""


def draw(panels: Mapping[str, Mapping[str, Line]], path: Path, legend: str = "", across: str = "steps") -> None:
    """Draw panels to a file, whose suffix says the format (svg, png, pdf).

    Args:
        panels: By title, the lines of each by name; a name has the same colour in all panels.
        legend: What the names are.
        across: What the steps are.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a plot needs matplotlib: pip install 'warmstart[plot]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    high = -(-len(panels) // WIDE)
    figure, places = pyplot.subplots(
        high, WIDE, figsize=(9, 3 * high), sharex=True, squeeze=False, layout="constrained"
    )
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    shades = pyplot.get_cmap("viridis")
    colours = {name: shades(0.9 * index / max(len(names) - 1, 1)) for index, name in enumerate(names)}
    for place in places.flat[len(panels) :]:
        place.set_axis_off()
    for place, (title, lines) in zip(places.flat, panels.items(), strict=False):
        for name, (steps, values) in lines.items():
            place.plot(steps, values, label=name, color=colours[name], linewidth=1.5)
        place.set_title(title, fontsize=11)
        place.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            place.legend(title=legend, frameon=False, fontsize=8)
    figure.supxlabel(across, fontsize=10)
    # The same picture for the same numbers, to the byte.
    with matplotlib.rc_context({"svg.hashsalt": "warmstart"}):
        figure.savefig(path, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
