"""Ratios as bars for a page of results: how many times as fast, or as large, with a mark at one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warmstart.experiments.sweep_plots import new_figure, save_figure


def bars(ratios: Mapping[str, float], path: Path, label: str) -> None:
    """Plot ratios to an SVG file, the first on top."""
    figure, axes = new_figure(8, 0.9 + 0.36 * len(ratios))
    names = list(ratios)[::-1]
    drawn = axes.barh(names, [ratios[name] for name in names], color="#3b528b", height=0.6)
    axes.bar_label(drawn, fmt="%.2f", padding=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel(label)
    axes.set_xlim(0, 1.12 * max(ratios.values()))
    save_figure(figure, path)
