"""The cells of a study and the measurements in them: a set at a size, measured by each method with each seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.errors import RecipeError, nearest
from warmstart.recipe.study import Study, StudyMethod, StudyPeer


@dataclass(frozen=True)
class Cell:
    """A set at a size."""

    set: str
    size: str

    @property
    def name(self) -> str:
        return f"{self.set}-{self.size}"


@dataclass(frozen=True)
class Measurement:
    """A method on a cell, with a seed that draws the rows as well."""

    cell: Cell
    method: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.cell.name} {self.method} seed {self.seed}"


@dataclass(frozen=True)
class StudyPart:
    """Which part of a study is measured: names, or nothing for all."""

    sets: Sequence[str] = ()
    sizes: Sequence[str] = ()
    methods: Sequence[str] = ()
    seeds: int | None = None

    def check(self, study: Study) -> None:
        """Refuse names that the study does not have."""
        for option, names, known in (
            ("--sets", self.sets, study.sets),
            ("--sizes", self.sizes, study.sizes),
            ("--methods", self.methods, study.compared()),
        ):
            for unknown in (name for name in names if name not in known):
                raise RecipeError(f"{option} {unknown}: the study has no such; {nearest(unknown, known)}")


def cells(study: Study, part: StudyPart) -> list[Cell]:
    """The cells of a part, in the study's order."""
    return [
        Cell(name, size)
        for name, one in study.sets.items()
        for size in one.sizes
        if (not part.sets or name in part.sets) and (not part.sizes or size in part.sizes)
    ]


def measurements(study: Study, part: StudyPart) -> list[Measurement]:
    """All measurements of a part; seeds come outermost, so that what was stopped compares all methods on fewer."""
    part.check(study)
    asked = {name for method in part.methods for name in study.choices.get(method, [method])}
    chosen = [(name, one) for name, one in study.measured().items() if not part.methods or name in asked]
    planned = [
        Measurement(cell, name, seed)
        for cell in cells(study, part)
        for seed in range(part.seeds or study.sizes[cell.size].seeds)
        for name, method in chosen
        if _measured(study, cell, method)
    ]
    return sorted(planned, key=lambda one: one.seed)


def _measured(study: Study, cell: Cell, method: StudyMethod | StudyPeer) -> bool:
    """Whether a method is measured on a cell."""
    if (method.sets is not None and cell.set not in method.sets) or (
        method.sizes is not None and cell.size not in method.sizes
    ):
        return False
    if isinstance(method, StudyMethod):
        return True
    one = study.sets[cell.set]
    return one.task in method.tasks and (method.pairs or not one.pairs)
