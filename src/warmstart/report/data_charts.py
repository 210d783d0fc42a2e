"""Charts of rows: how confident the model is of them, their labels, their lengths, and a map of their embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warmstart.evaluation.records.data_profile import EmbeddingMap
from warmstart.report.blocks import ChartBlock, brief
from warmstart.report.charts import MARKERS, NARROW, WIDE, ChartTexts, Points, legend, name_rows, plot_series
from warmstart.report.svg import INK, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability(
    texts: ChartTexts, series: Mapping[str, Points], counts: Mapping[str, Sequence[tuple[float, float, int]]]
) -> ChartBlock:
    """The accuracy by confidence beside the diagonal, and below it how many rows each bin has.

    Args:
        counts: By the same names as the series, the bounds and the rows of each bin.
    """

    def paint(figure: Figure, narrow: bool) -> None:
        upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1.5 if narrow else 1.1])
        upper.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        plot_series(upper, series, ("", "accuracy"))
        upper.set_xlim(-0.02, 1.02)
        upper.set_ylim(-0.02, 1.02)
        legend(upper, len(series), narrow)
        for index, bins in enumerate(counts.values()):
            for low, high, rows in bins:
                # Bars of the same bin stand beside each other.
                width = (high - low) / len(counts)
                left = low + index * width
                lower.bar(left, rows, 0.9 * width, align="edge", color=SERIES[index % len(SERIES)], linewidth=0)
                if not narrow or index == len(counts) - 1:
                    style = {"ha": "center", "fontsize": 8, "rotation": 90 if narrow or rows > 999 else 0}
                    spot = (left + 0.45 * width, rows)
                    lower.annotate(f"{rows:,}", spot, (0, 2), textcoords="offset points", **style)
        lower.margins(y=0.5 if narrow else 0.3)
        lower.locator_params(axis="y", nbins=3, integer=True)
        lower.set_xlabel("confidence")
        lower.set_ylabel("rows")

    return texts.draw((WIDE, 4.4), paint, (NARROW, 4.2))


def grouped_bars(
    texts: ChartTexts, names: Sequence[str], series: Mapping[str, Sequence[float]], label: str
) -> ChartBlock:
    """A horizontal bar of each series for each name, the first name at the top."""

    def paint(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        height = 0.8 / max(1, len(series))
        for index, (name, values) in enumerate(series.items()):
            positions = [row - 0.4 + (index + 0.5) * height for row in range(len(names))]
            colour = SERIES[index % len(SERIES)]
            axes.barh(positions, values, 0.9 * height, color=colour, linewidth=0, label=name)
        name_rows(axes, names, narrow)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.locator_params(axis="x", nbins=4 if narrow else 8)
        axes.set_xlabel(label)
        legend(axes, len(series), narrow)

    height = 0.9 + len(names) * (0.16 + 0.15 * len(series))
    return texts.draw((WIDE, height), paint, (NARROW, height))


def histogram(
    texts: ChartTexts, edges: Sequence[int], series: Mapping[str, Sequence[float]], window: int, label: str
) -> ChartBlock:
    """The share of rows in each bin, a stepped line for each series; the end of the window where it is in sight."""

    def paint(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        for index, (name, shares) in enumerate(series.items()):
            colour = SERIES[index % len(SERIES)]
            axes.stairs(shares, edges, color=colour, fill=index == 0, alpha=0.35 if index == 0 else 1, linewidth=1.8)
            axes.plot(
                [], [], color=colour, linewidth=6 if index == 0 else 1.8, alpha=0.35 if index == 0 else 1, label=name
            )
        if edges[0] < window <= edges[-1]:
            axes.axvline(window, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), label="window")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xlabel(label)
        axes.set_ylabel("share of rows")
        legend(axes, len(series) + 1, narrow)

    return texts.draw((WIDE, 2.8), paint, (NARROW, 2.6))


def scatter(texts: ChartTexts, points: EmbeddingMap, named: Sequence[str], other: str) -> ChartBlock:
    """A dot for each row of a map, in the colour and form of its label; wrong answers are ringed.

    Args:
        named: The labels with a colour and a form of their own.
        other: What the rows of all other labels are called.
    """

    def paint(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        rest = [index for index, label in enumerate(points.labels) if label not in named]
        groups = [(name, [i for i, label in enumerate(points.labels) if label == name]) for name in named]
        drawn = [(name, group, SERIES[n], MARKERS[n]) for n, (name, group) in enumerate(groups)]
        drawn += [(other, rest, MUTED, ".")] if rest else []
        for name, group, colour, marker in drawn:
            x, y = [points.x[i] for i in group], [points.y[i] for i in group]
            shown = brief(name, 16 if narrow else 30)
            axes.plot(
                x, y, marker, color=colour, markersize=4 if narrow else 5.5, alpha=0.75, markeredgewidth=0, label=shown
            )
        wrong = [index for index, is_wrong in enumerate(points.wrong) if is_wrong]
        if wrong:
            x, y = [points.x[i] for i in wrong], [points.y[i] for i in wrong]
            ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.2}
            axes.plot(x, y, "o", linestyle="", label="wrong", markersize=8.5 if narrow else 11, **ring)
        axes.grid(True, axis="both")
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
        shares = [f"component {n} ({share:.0%} of the variance)" for n, share in enumerate(points.explained, 1)]
        axes.set_xlabel(shares[0])
        axes.set_ylabel(shares[1])
        legend(axes, len(drawn) + bool(wrong), narrow)

    return texts.draw((7.2, 5.2), paint, (NARROW, 4.2))
