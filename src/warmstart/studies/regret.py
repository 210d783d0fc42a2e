"""Regret: how far a method is behind the best one of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warmstart.evaluation.comparison import compare
from warmstart.evaluation.statistics import MeanEstimate, over_seeds
from warmstart.studies.cells import Cell
from warmstart.studies.figures import KeptResult

Results = Mapping[Cell, Sequence[KeptResult]]


@dataclass(frozen=True)
class CellMeans:
    """The mean of every method on a cell, over the seeds that all of them were measured with."""

    cell: Cell
    means: dict[str, float]
    seeds: int

    @property
    def best(self) -> float:
        """The mean of the best method."""
        return max(self.means.values())

    def regret(self, method: str) -> float | None:
        """How far a method is behind the best one; None where it was not measured."""
        return self.best - self.means[method] if method in self.means else None


def cell_means(results: Results) -> list[CellMeans]:
    """The means of each cell that has figures of several methods: one alone is behind nothing."""
    means_of_cells = []
    for cell, rows in results.items():
        by_method: dict[str, dict[int, float]] = {}
        for row in rows:
            by_method.setdefault(row.variant, {})[row.seed] = row.value
        shared = set.intersection(*map(set, by_method.values()))
        if shared and len(by_method) > 1:
            means = {
                name: float(np.mean([values[seed] for seed in sorted(shared)])) for name, values in by_method.items()
            }
            means_of_cells.append(CellMeans(cell, means, len(shared)))
    return means_of_cells


def mean_regret(cells: Sequence[CellMeans], method: str) -> float:
    """The mean over cells that a method was measured on; NaN without any."""
    regrets = [regret for cell in cells if (regret := cell.regret(method)) is not None]
    return float(np.mean(regrets)) if regrets else float("nan")


def worst_cell(cells: Sequence[CellMeans], method: str) -> tuple[Cell, float] | None:
    """The cell where a method is furthest behind the best one, and by how much."""
    regrets = [(cell.cell, regret) for cell in cells if (regret := cell.regret(method)) is not None]
    return max(regrets, key=lambda pair: pair[1]) if regrets else None


def ahead_of(cells: Sequence[CellMeans], method: str, other: str) -> MeanEstimate:
    """How far a method is ahead of another on average over cells, with the t interval over cells."""
    both = [cell.means[method] - cell.means[other] for cell in cells if {method, other} <= set(cell.means)]
    return over_seeds(both)


def behind(results: Results, method: str) -> list[tuple[Cell, str, float]]:
    """Cells where a method is behind another one, with the 95% interval of the pairs by seed below zero."""
    cells = []
    for cell, rows in results.items():
        own = [row for row in rows if row.variant == method]
        for other in dict.fromkeys(row.variant for row in rows if row.variant != method):
            if own:
                seeds = compare(own, [row for row in rows if row.variant == other]).seeds
                if seeds.high < 0:
                    cells.append((cell, other, -seeds.mean))
    return cells
