"""The kinds of chart a report has, each drawn for a screen and for a phone, with its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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
NARROW = 3.7
"""Inches that a phone has room for; a chart of up to a third more is shrunk instead of drawn again."""
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "X")
"""Lines differ in dash and marker as well as in colour."""
Size: TypeAlias = tuple[float, float]
"""Width and height in inches."""


@dataclass(frozen=True)
class ChartTexts:
    """What a chart is called and shows, and its numbers."""

    name: str
    """Makes its ids differ from those of other charts."""
    title: str
    description: str
    table: TableBlock

    def draw(self, size: Size, paint: Callable[[Figure, bool], None], narrow: Size | None = None) -> ChartBlock:
        """The block of a chart with these texts.

        Args:
            paint: Draws into an empty figure, which is narrow or not.
            narrow: The size for a phone; None where the chart is small enough for one, or cannot be made so small.
        """
        both = [self._svg(size, paint, False), *([self._svg(narrow, paint, True)] if narrow else [])]
        return ChartBlock(self.title, self.description, both[0], self.table, both[1] if narrow else "")

    def _svg(self, size: Size, paint: Callable[[Figure, bool], None], narrow: bool) -> str:
        settings = style()
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(settings):
            figure = Figure(figsize=size, layout="constrained")
            paint(figure, narrow)
            return inline(figure, f"{self.name}-narrow" if narrow else self.name, self.title, self.description)


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


def lines(texts: ChartTexts, series: Mapping[str, Points], labels: tuple[str, str]) -> ChartBlock:
    """Lines over one axis, each a series of points.

    Args:
        labels: Of the x axis and of the y axis.
    """

    def paint(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        plot_series(axes, series, labels)
        legend(axes, len(series), narrow)

    return texts.draw((WIDE, 2.8), paint, (NARROW, 2.6))


def plot_series(axes: Axes, series: Mapping[str, Points], labels: tuple[str, str]) -> None:
    """Draw lines that differ in colour, dash and marker."""
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


def legend(axes: Axes, count: int, narrow: bool) -> None:
    """A legend above the axes, where nothing can run through it; none for a single series."""
    if count > 1:
        columns = min(count, 2 if narrow else 4)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, columnspacing=1.2)


def intervals(texts: ChartTexts, rows: Sequence[IntervalRow], label: str) -> ChartBlock:
    """A dot and its interval for each row, single values as small strokes beside it."""

    def paint(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        for index, row in enumerate(rows):
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [index, index], color=SERIES[0], linewidth=2.5, solid_capstyle="butt")
            if row.single:
                axes.plot(row.single, [index - 0.25] * len(row.single), "|", color=MUTED, markersize=7)
            if row.value is not None:
                axes.plot([row.value], [index], "o", color=SERIES[0], markersize=6, markeredgecolor=PAPER)
        name_rows(axes, [row.name for row in rows], narrow)
        axes.locator_params(axis="x", nbins=4 if narrow else 8)
        axes.set_xlabel(label)

    return texts.draw((WIDE, 0.9 + 0.34 * len(rows)), paint, (NARROW, 0.9 + 0.4 * len(rows)))


def name_rows(axes: Axes, names: Sequence[str], narrow: bool) -> None:
    """A name at the edge for each row, the first at the top, and a grid of the values."""
    shown = ["\n".join(wrap(brief(name, 36), 18)) for name in names] if narrow else [brief(name, 39) for name in names]
    axes.set_yticks(range(len(names)), shown, fontsize=8.5 if narrow else 10)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(False, axis="y")


def round_steps(most: int) -> list[int]:
    """Round numbers from 0 up to the number of steps, for an axis."""
    from matplotlib.ticker import MaxNLocator

    return [int(step) for step in MaxNLocator(6, integer=True).tick_values(0, most) if 0 <= step <= most]


def heat_map(
    texts: ChartTexts,
    cells: Sequence[HeatCell],
    ticks: tuple[Ticks, Ticks],
    labels: tuple[str, str],
    size: Size = (WIDE, 3.0),
    narrow: Size | None = None,
) -> ChartBlock:
    """Cells shaded by their value; nothing is drawn where it is 0.

    Args:
        ticks: Of the x axis and of the y axis; as are `labels`.
        narrow: As in `ChartTexts.draw`; ticks of the x axis are then drawn one in two.
    """
    from matplotlib.patches import Rectangle

    def paint(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        for cell in cells:
            if cell.value > 0:
                corner, alpha = (cell.left, cell.row - 0.5), 0.12 + 0.88 * cell.value
                axes.add_patch(Rectangle(corner, cell.width, 1, facecolor=HEAT, alpha=alpha, linewidth=0))
        small = 10 if len(ticks[1]) <= 30 else 6.5
        turned = 90 if len(ticks[0]) > 12 else 0
        across = ticks[0][::2] if narrow else ticks[0]
        axes.set_xticks([x for x, _ in across], [text for _, text in across], rotation=turned, fontsize=small)
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

    return texts.draw(size, paint, narrow)
