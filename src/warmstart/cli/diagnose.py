"""warmstart diagnose: where a run errs, how far its probabilities can be believed, and which labels look wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError, nearest

HOW = ("features", "trained")


def command(
    run: Annotated[str, typer.Argument(help="A finished run.")],
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="A further column of the test file to group rows by.", metavar="COLUMN"),
    ] = None,
    precision: Annotated[
        list[float] | None,
        typer.Option("--precision", help="A share of right answers: from which confidence is it reached?"),
    ] = None,
    abstain: Annotated[
        list[float] | None,
        typer.Option("--abstain", help="A share of answers to hold back: below which confidence are they?"),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Keep the temperature, so that probabilities are calibrated from now on."),
    ] = False,
    label_errors: Annotated[
        bool, typer.Option("--label-errors", help="Look for wrong labels among the training rows.")
    ] = False,
    folds: Annotated[
        int, typer.Option("--folds", help="Parts that the training rows are cut into for that.", min=2)
    ] = 5,
    how: Annotated[
        str,
        typer.Option(
            "--how",
            help="What answers a part unseen: a regression on `features` of the starting encoder, or the recipe itself "
            "(`trained`) on the other parts.",
            metavar="features|trained",
        ),
    ] = "features",
    most: Annotated[int, typer.Option("--most", help="Mistakes and label errors to list.", min=1)] = 20,
    json: options.Json = False,
) -> None:
    """Say where a run errs."""
    if how not in HOW:
        raise RecipeError(f"--how {how}: {nearest(how, HOW)}")
    from warmstart.cli import diagnosis_tables as diagnosis_shown
    from warmstart.cli import screen
    from warmstart.diagnosis.diagnose import diagnose
    from warmstart.diagnosis.label_errors import Looking
    from warmstart.evaluation.run import RunFolder

    found = diagnose(
        RunFolder(run),
        by=by or (),
        precisions=precision or (),
        abstain=abstain or (),
        calibrate=calibrate,
        label_errors=Looking("trained" if how == "trained" else "features", folds) if label_errors else None,
        most=most,
        progress=screen.Bars(),
    )
    if json:
        screen.print_json({"run": run, **found})
    else:
        diagnosis_shown.show(run, found)
