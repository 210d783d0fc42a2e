"""Pictures of a sweep: how its best value rose, and which fields mattered."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from warmstart.errors import MissingExtra


def draw_history(values: Mapping[int, float], name: str, path: Path, lowest: bool = False) -> None:
    """Draw each trial's value, and the best until then, to a file.

    Args:
        values: By number of trial.
        name: What the values are.
        lowest: Whether the least is the best.
    """
    figure, place = _figure(7, 3)
    numbers = sorted(values)
    best = list(accumulate((values[one] for one in numbers), min if lowest else max))
    place.plot(numbers, [values[one] for one in numbers], "o", color="#3b528b", markersize=4, label="each trial")
    place.step(numbers, best, where="post", color="#5ec962", label="best so far")
    place.set_xlabel("trial")
    place.set_ylabel(name)
    place.legend(frameon=False, fontsize=8)
    _save(figure, path)


def draw_importances(importances: Mapping[str, float], path: Path) -> None:
    """Draw the share of each field, the largest on top, to a file."""
    figure, place = _figure(7, 0.8 + 0.4 * len(importances))
    names = list(importances)[::-1]
    place.barh(names, [importances[name] for name in names], color="#3b528b")
    place.set_xlabel("share of the spread of values")
    place.set_xlim(0, 1)
    _save(figure, path)


def _figure(wide: float, high: float) -> tuple[Any, Any]:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a plot needs matplotlib: pip install 'warmstart[plot]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, place = pyplot.subplots(figsize=(wide, high), layout="constrained")
    place.spines[["top", "right"]].set_visible(False)
    return figure, place


def _save(figure: Any, path: Path) -> None:
    import matplotlib
    from matplotlib import pyplot

    # The same picture for the same numbers, to the byte.
    with matplotlib.rc_context({"svg.hashsalt": "warmstart"}):
        figure.savefig(path, facecolor="white", metadata={"Date": None})
    pyplot.close(figure)
