"""warmstart scout: which encoder to start from, by a linear probe on each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli import options


def command(
    source: Annotated[str, typer.Argument(help="A data file to train on.", metavar="FILE")],
    models: Annotated[
        str, typer.Option("--models", help="The encoders to compare, with commas.", metavar="MODEL,MODEL…")
    ],
    task: options.Task = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    test: options.Test = None,
    max_tokens: options.MaxTokens = None,
    set_: options.Sets = None,
    out: Annotated[
        str | None, typer.Option("--out", help="The folder of the runs. Default: scouts/ and the file's name.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", help="Write a picture, score over speed, to this file.", metavar="FILE.svg")
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare encoders on your data, each by a linear probe that takes seconds."""
    values = dict(locals())
    fields = {"data.train": source, **options.recipe_fields(values, options.DATA), **options.parse_sets(set_)}
    names = options.split_names(models)
    from warmstart.pipeline.preflight import check_recipe
    from warmstart.recipe import make_recipe

    for name in names:
        check_recipe(make_recipe({**fields, "model": name}, "scout"))
    from dataclasses import asdict

    from warmstart.cli import encoder_table, screen
    from warmstart.experiments.scout import plot_scout, scout

    folder = out or Path("scouts") / Path(source).name.partition(".")[0]
    results = scout(fields, names, folder, screen.Bars())
    if plot:
        plot_scout(results, Path(plot))
    if json:
        screen.print_json([asdict(one) for one in results])
        return
    encoder_table.show(results)
    screen.console.print(f"Next: warmstart fit {source} --model {results[0].model}", markup=False, highlight=False)
