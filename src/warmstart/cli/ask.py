"""warmstart ask: which unlabelled rows to label next."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError
from warmstart.options import Values

if TYPE_CHECKING:
    from warmstart.active_learning.ask import AskedRows
    from warmstart.active_learning.dry_run import DryRun

Rows = Annotated[int, typer.Option("--rows", help="How many rows to choose; with --dry-run, those of a round.", min=1)]
ChosenStrategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        help="How rows are chosen: by entropy or margin of the predicted probabilities, by the disagreement of several "
        "seeds, by coverage of what is not labelled yet (k-centre), mixed (by margin, then far from each other), or at "
        "random. Default: mixed; margin for a task that reads no text, coverage for one without probabilities.",
        metavar="NAME",
        show_default=False,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        help="The file for the rows, with an empty column for the label: .csv, .jsonl or .parquet; or .json, for tasks "
        "of Label Studio.",
        metavar="FILE",
    ),
]
Drop = Annotated[
    Literal["empty"] | None,
    typer.Option("--drop", help="Rows to leave out: empty ones, whose text is missing. By default they are errors."),
]


def command(
    run: Annotated[str, typer.Argument(help="A finished run.", metavar="RUN")],
    pool: Annotated[
        str, typer.Argument(help="A file of unlabelled rows; with --dry-run, of labelled ones.", metavar="POOL")
    ],
    rows: Rows = 100,
    strategy: ChosenStrategy = None,
    out: Out = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file that --out names.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Simulate asking on a labelled file with every strategy, and tell what each saves beside random rows.",
        ),
    ] = False,
    seeds: Annotated[int, typer.Option("--seeds", help="With --dry-run, how many simulations.", min=2)] = 5,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    header: options.Header = None,
    format: options.Format = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    drop: Drop = None,
    json: options.Json = False,
) -> None:
    """Choose which unlabelled rows to label next."""
    _ask(run, pool, dict(locals()))


def _ask(run: str, pool: str, values: Values) -> None:
    reading = options.recipe_fields(values, options.READING)
    if values["dry_run"]:
        for name in ("strategy", "out", "drop"):
            if values[name]:
                raise RecipeError(f"--{name}: works only without --dry-run, which tries all strategies; leave it out")
    from warmstart.evaluation.run import RunFolder

    finished = RunFolder(run)  # refused here, before torch is imported
    from warmstart import tasks
    from warmstart.evaluation.file_reading import source_of

    schema = tasks.schema_of(finished.recipe.task.name, finished.recipe.task.options)
    if values["dry_run"]:
        from warmstart.active_learning.dry_run import dry_run
        from warmstart.cli import screen

        source = source_of(run, pool, reading, schema)
        simulated = dry_run(finished, finished.predictor.task, source, values["rows"], values["seeds"], screen.Bars())
        _show_dry_run(simulated, values["json"])
        return
    if values["out"] is None:
        raise RecipeError("ask: give --out with a file for the rows, such as --out to-label.csv")
    from warmstart.active_learning.ask import ask_rows, check_strategy
    from warmstart.active_learning.asked_files import check_out, write_asked
    from warmstart.cli import screen

    out = Path(values["out"])
    if values["strategy"]:
        check_strategy(values["strategy"])
    check_out(out, values["overwrite"])
    drop = [values["drop"]] if values["drop"] else []
    source = source_of(run, pool, reading, schema.without_answers())
    asked = ask_rows(finished, source, values["rows"], values["strategy"], drop=drop, progress=screen.Bars())
    written = write_asked(asked, out)
    screen.findings(asked.findings)
    _show(run, asked, written, values["json"])


def _show(run: str, asked: AskedRows, written: list[Path], json: bool) -> None:
    from warmstart.cli import screen

    if json:
        counts = {name: getattr(asked, name) for name in ("strategy", "label", "pool", "labelled", "near_duplicates")}
        screen.print_json({"out": [str(path) for path in written], "rows": len(asked.rows), **counts})
        return
    left = f"; {asked.near_duplicates:,} near-duplicates passed over" if asked.near_duplicates else ""
    already = f", {asked.labelled:,} more are labelled already" if asked.labelled else ""
    lines = [
        f"{len(asked.rows):,} of {asked.pool:,} unlabelled rows chosen by {asked.strategy}{already}{left}",
        f"written to {' and '.join(map(str, written))}; fill in the column {asked.label!r}, then train with them by",
        f"  warmstart fit {run}/recipe.yaml --add {written[0] if len(written) == 1 else 'EXPORT.csv'} --out {run}-2",
    ]
    for line in lines:
        screen.errors.print(line, markup=False, highlight=False, soft_wrap=True)


def _show_dry_run(simulated: DryRun, json: bool) -> None:
    from warmstart.cli import screen

    if json:
        screen.print_json(asdict(simulated))
        return
    title = f"Rows to reach {simulated.share:.0%} of full accuracy, {simulated.seeds} seeds, {simulated.learner}"
    screen.grid(
        title,
        [
            {
                "strategy": result.strategy,
                "rows": round(result.rows),
                "of random": f"{result.ratio:.2f}",
                "95% interval": "–" if result.low is None else f"{result.low:.2f} to {result.high:.2f}",
                "p (Holm)": "–" if result.p is None else f"{result.p:.3f}",
            }
            for result in simulated.results
        ],
    )
    screen.console.print(simulated.verdict, markup=False, highlight=False, soft_wrap=True)
