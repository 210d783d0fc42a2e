"""warmstart study: methods measured beside each other, over sets, sizes and seeds."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.studies.regret import Results

WORK = ".cache/studies"


def command(
    study: Annotated[
        str, typer.Argument(help="A study in studies/, by name, or a folder that has a study.yaml.", metavar="STUDY")
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", help="The encoder that all methods start from. Default: the study's.", metavar="MODEL"),
    ] = None,
    sets: Annotated[str, typer.Option("--sets", help="Some of the sets, with commas. Default: all.")] = "",
    sizes: Annotated[str, typer.Option("--sizes", help="Some of the sizes, with commas. Default: all.")] = "",
    methods: Annotated[
        str, typer.Option("--methods", help="Some of the methods and peers, with commas. Default: all.")
    ] = "",
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="The number of seeds. Default: that of each size.", min=1)
    ] = None,
    work: Annotated[str, typer.Option("--work", help="A folder for the rows that are drawn and for runs.")] = WORK,
    page: Annotated[
        str | None, typer.Option("--page", help="Write the study's page to this Markdown file.", metavar="FILE")
    ] = None,
    no_train: Annotated[bool, typer.Option("--no-train", help="Report on the figures that are there.")] = False,
    json: options.Json = False,
) -> None:
    """Measure methods beside each other, over sets, sizes and seeds, and write a page about it.

    Figures are kept in the study's folder, so a study that was stopped resumes. The same command in several terminals
    shares the work.
    """
    from warmstart.errors import RecipeError, RunError
    from warmstart.recipe.study import load_study
    from warmstart.recipe.study_base import FILE
    from warmstart.studies.cells import StudyPart

    settings, folder = load_study(study)
    part = StudyPart(
        _names(sets, settings.sets), _names(sizes, settings.sizes), _names(methods, settings.compared()), seeds
    )
    part.check(settings)
    if not (encoder := model or settings.recipe.get("model")):
        raise RecipeError(f"{folder}: the study names no encoder; add --model, or recipe.model in {FILE}")
    from warmstart.cli import screen
    from warmstart.studies.measure import StudyRunner
    from warmstart.studies.page import summary, write_study_page

    runner = StudyRunner(settings, folder, encoder, Path(work) / folder.resolve().name, screen.Lines())
    if not no_train:
        runner.run(part)
    results = runner.results(part)
    if page:
        write_study_page(settings, folder, results, Path(page), f"warmstart study {folder.name}")
    figures = summary(settings, results)
    if json:
        screen.print_json(figures)
    else:
        _show(results)
        screen.print_json(figures)
    if runner.errors:
        raise RunError("\n".join((*runner.errors, "the same command tries again")))


def _names(text: str, known: Collection[str]) -> tuple[str, ...]:
    """The names between commas; one that is known may have commas itself, as those of methods made from axes do."""
    pieces, names = text.split(","), []
    while pieces:
        ends = range(len(pieces), 0, -1)
        end = next((end for end in ends if ",".join(pieces[:end]).strip() in known), 1)
        names.append(",".join(pieces[:end]).strip())
        pieces = pieces[end:]
    return tuple(name for name in names if name)


def _show(results: Results) -> None:
    """One line per cell: the mean of each method."""
    from warmstart.cli import screen
    from warmstart.studies.regret import cell_means

    means = cell_means(results)
    names = list(dict.fromkeys(name for cell in means for name in cell.means))
    rows = [
        {
            "cell": cell.cell.name,
            "seeds": str(cell.seeds),
            **{name: f"{100 * cell.means[name]:.1f}" if name in cell.means else None for name in names},
        }
        for cell in means
    ]
    if rows:
        screen.grid("means, %", rows)
