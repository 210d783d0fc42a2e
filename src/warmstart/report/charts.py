"""The kinds of chart a report has: lines, intervals, a heat map. Each comes with its numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from warmstart.report.blocks import ChartBlock, TableBlock, brief
from warmstart.report.svg import HEAT, INK, LINE, MUTED, PAPER, SERIES, inline, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
Ticks = Sequence[tuple[float, str]]
"""Positions and names."""
WIDE = 8.6
"""Inches; a page has room for nine."""
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "X")
"""Lines differ in dash and marker as well as in colour."""


@dataclass(frozen=True)
class ChartTexts:
    """What a chart is called and shows, and its numbers."""

    name: str
    """Makes its ids differ from those of other charts."""
    title: str
    description: str
    table: TableBlock

    def draw(self, figure: Figure) -> ChartBlock:
        """The block of a figure with these texts."""
        svg = inline(figure, self.name, self.title, self.description)
        return ChartBlock(self.title, self.description, svg, self.table)


class IntervalRow(NamedTuple):
    """A value with its interval."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    single: Sequence[float] = ()
    """The values that it is the mean of."""


class HeatCell(NamedTuple):
    """A cell of a heat map."""

    left: float
    row: float
    """0 is at the top."""
    width: float
    value: float
    """From 0 to 1."""


@contextmanager
def _figure(height: float, width: float = WIDE) -> Iterator[tuple[Figure, Axes]]:
    """An empty figure with one pair of axes, in the page's style."""
    settings = style()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def lines(
    texts: ChartTexts, series: Mapping[str, Points], labels: tuple[str, str], diagonal: bool = False
) -> ChartBlock:
    """Lines over one axis, each a series of points.

    Args:
        labels: Of the x axis and of the y axis.
        diagonal: Draw the line on which both are equal, from 0 to 1.
    """
    with _figure(3.6 if diagonal else 2.8, 4.6 if diagonal else WIDE) as (figure, axes):
        if diagonal:
            axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
            axes.set_xlim(-0.02, 1.02)
            axes.set_ylim(-0.02, 1.02)
        for index, (label, points) in enumerate(series.items()):
            kind = index % len(SERIES)
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=SERIES[kind],
                linestyle=DASHES[kind],
                marker=None if len(points) > 40 else MARKERS[kind],
                markersize=4,
                linewidth=1.8,
                label=brief(label, 41),
            )
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        if len(series) > 1:
            # Above the axes, where no line can run through it.
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(series), borderaxespad=0.2)
        return texts.draw(figure)


def intervals(texts: ChartTexts, rows: Sequence[IntervalRow], label: str) -> ChartBlock:
    """A dot and its interval for each row, single values as small strokes beside it."""
    with _figure(0.9 + 0.34 * len(rows)) as (figure, axes):
        for index, row in enumerate(rows):
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [index, index], color=SERIES[0], linewidth=2.5, solid_capstyle="butt")
            if row.single:
                axes.plot(row.single, [index - 0.25] * len(row.single), "|", color=MUTED, markersize=7)
            if row.value is not None:
                axes.plot([row.value], [index], "o", color=SERIES[0], markersize=6, markeredgecolor=PAPER)
        axes.set_yticks(range(len(rows)), [brief(row.name, 39) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="x")
        axes.grid(False, axis="y")
        axes.set_xlabel(label)
        return texts.draw(figure)


def round_steps(most: int) -> list[int]:
    """Round numbers from 0 up to the number of steps, for an axis."""
    from matplotlib.ticker import MaxNLocator

    return [int(step) for step in MaxNLocator(6, integer=True).tick_values(0, most) if 0 <= step <= most]


def heat_map(
    texts: ChartTexts,
    cells: Sequence[HeatCell],
    ticks: tuple[Ticks, Ticks],
    labels: tuple[str, str],
    size: tuple[float, float] = (WIDE, 3.0),
) -> ChartBlock:
    """Cells shaded by their value; nothing is drawn where it is 0.

    Args:
        ticks: Of the x axis and of the y axis; as are `labels`.
    """
    from matplotlib.patches import Rectangle

    with _figure(size[1], size[0]) as (figure, axes):
        for cell in cells:
            if cell.value > 0:
                corner, alpha = (cell.left, cell.row - 0.5), 0.12 + 0.88 * cell.value
                axes.add_patch(Rectangle(corner, cell.width, 1, facecolor=HEAT, alpha=alpha, linewidth=0))
        small = 10 if len(ticks[1]) <= 30 else 6.5
        turned = 90 if len(ticks[0]) > 12 else 0
        axes.set_xticks([x for x, _ in ticks[0]], [text for _, text in ticks[0]], rotation=turned, fontsize=small)
        axes.set_yticks([y for y, _ in ticks[1]], [text for _, text in ticks[1]], fontsize=small)
        axes.set_xlim(min(cell.left for cell in cells), max(cell.left + cell.width for cell in cells))
        rows = [cell.row for cell in cells]
        axes.set_ylim(max(rows) + 0.5, min(rows) - 0.5)
        axes.grid(False)
        for edge in axes.spines.values():
            edge.set_visible(True)
            edge.set_color(LINE)
        axes.set_xlabel(labels[0], color=INK)
        axes.set_ylabel(labels[1], color=INK)
        return texts.draw(figure)
