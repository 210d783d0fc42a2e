"""The kinds of chart a report has: lines, intervals, a heat map. Each comes with its numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from warmstart.report.blocks import Chart, Table, brief
from warmstart.report.svg import HEAT, INK, LINE, MUTED, PAPER, SERIES, inline, style

Points = Sequence[tuple[float, float]]
Dot = tuple[str, float | None, float | None, float | None, Sequence[float]]
"""Name, value, lower and upper bound, single values."""
WIDE = 8.6
"""Inches; a page has room for nine."""
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKS = ("o", "s", "^", "D", "v", "X")
"""Lines are told apart by dash and mark as well as by colour."""


@contextmanager
def _figure(high: float, wide: float = WIDE) -> Any:
    """An empty figure with one pair of axes, in the page's style."""
    chosen = style()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(chosen):
        figure = Figure(figsize=(wide, high), layout="constrained")
        yield figure, figure.subplots()


def lines(
    name: str,
    title: str,
    description: str,
    series: Mapping[str, Points],
    axes: tuple[str, str],
    table: Table,
    diagonal: bool = False,
) -> Chart:
    """Lines over one axis, each a series of points.

    Args:
        axes: What is across, and what is up.
        diagonal: Draw the line on which both are the same, from 0 to 1.
    """
    with _figure(3.6 if diagonal else 2.8, 4.6 if diagonal else WIDE) as (figure, place):
        if diagonal:
            place.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
            place.set_xlim(-0.02, 1.02)
            place.set_ylim(-0.02, 1.02)
        for index, (label, points) in enumerate(series.items()):
            kind = index % len(SERIES)
            many = len(points) > 40
            place.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=SERIES[kind],
                linestyle=DASHES[kind],
                marker=None if many else MARKS[kind],
                markersize=4,
                linewidth=1.8,
                label=brief(label, 41),
            )
        place.set_xlabel(axes[0])
        place.set_ylabel(axes[1])
        if len(series) > 1:
            # Above the axes, where no line can run through it.
            place.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(series), borderaxespad=0.2)
        return Chart(title, description, inline(figure, name, title, description), table)


def intervals(
    name: str,
    title: str,
    description: str,
    rows: Sequence[Dot],
    across: str,
    table: Table,
) -> Chart:
    """A dot and its interval for each row, single values as small strokes beside it."""
    with _figure(0.9 + 0.34 * len(rows)) as (figure, place):
        for index, (_, value, low, high, single) in enumerate(rows):
            if low is not None and high is not None:
                place.plot([low, high], [index, index], color=SERIES[0], linewidth=2.5, solid_capstyle="butt")
            if single:
                place.plot(single, [index - 0.25] * len(single), "|", color=MUTED, markersize=7)
            if value is not None:
                place.plot([value], [index], "o", color=SERIES[0], markersize=6, markeredgecolor=PAPER)
        place.set_yticks(range(len(rows)), [brief(row[0], 39) for row in rows])
        place.set_ylim(len(rows) - 0.4, -0.6)
        place.grid(axis="x")
        place.grid(False, axis="y")
        place.set_xlabel(across)
        return Chart(title, description, inline(figure, name, title, description), table)


def round_steps(most: int) -> list[int]:
    """Round numbers from 0 up to the number of steps, for an axis."""
    from matplotlib.ticker import MaxNLocator

    return [int(step) for step in MaxNLocator(6, integer=True).tick_values(0, most) if 0 <= step <= most]


def heat(
    name: str,
    title: str,
    description: str,
    cells: Sequence[tuple[float, float, float, float]],
    ticks: tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]],
    axes: tuple[str, str],
    table: Table,
    size: tuple[float, float] = (WIDE, 3.0),
) -> Chart:
    """Cells shaded by a value from 0 to 1; nothing is drawn where it is 0.

    Args:
        cells: Left end, row, width and value of each; row 0 is at the top.
        ticks: Places and names, across and down.
    """
    from matplotlib.patches import Rectangle

    with _figure(size[1], size[0]) as (figure, place):
        for left, row, width, value in cells:
            if value > 0:
                place.add_patch(
                    Rectangle((left, row - 0.5), width, 1, facecolor=HEAT, alpha=0.12 + 0.88 * value, linewidth=0)
                )
        small = 10 if len(ticks[1]) <= 30 else 6.5
        turned = 90 if len(ticks[0]) > 12 else 0
        place.set_xticks([x for x, _ in ticks[0]], [text for _, text in ticks[0]], rotation=turned, fontsize=small)
        place.set_yticks([y for y, _ in ticks[1]], [text for _, text in ticks[1]], fontsize=small)
        place.set_xlim(min(c[0] for c in cells), max(c[0] + c[2] for c in cells))
        rows = [c[1] for c in cells]
        place.set_ylim(max(rows) + 0.5, min(rows) - 0.5)
        place.grid(False)
        for edge in place.spines.values():
            edge.set_visible(True)
            edge.set_color(LINE)
        place.set_xlabel(axes[0], color=INK)
        place.set_ylabel(axes[1], color=INK)
        return Chart(title, description, inline(figure, name, title, description), table)
