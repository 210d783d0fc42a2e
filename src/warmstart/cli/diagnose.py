"""warmstart diagnose: error analysis, calibration, thresholds and label errors of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError, nearest

CV_MODELS = ("features", "finetuned")

ExplainMistakes = Annotated[
    int,
    typer.Option("--explain", help="The number of mistakes to explain by the words behind them.", min=0, metavar="N"),
]


def command(
    run: Annotated[str, typer.Argument(help="A finished run.", metavar="RUN")],
    slice_by: Annotated[
        list[str] | None,
        typer.Option("--slice-by", help="A column of the test file by which to slice the rows.", metavar="COLUMN"),
    ] = None,
    target_precision: Annotated[
        list[float] | None,
        typer.Option("--target-precision", help="Find the confidence threshold for this precision."),
    ] = None,
    abstain: Annotated[
        list[float] | None,
        typer.Option("--abstain", help="Find the confidence threshold for abstaining on this share of the rows."),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Save the temperature with the model, so that its probabilities are calibrated."
        ),
    ] = False,
    label_errors: Annotated[
        bool, typer.Option("--label-errors", help="Look for label errors in the training rows.")
    ] = False,
    folds: Annotated[int, typer.Option("--folds", help="Cross-validation folds for --label-errors.", min=2)] = 5,
    cv_model: Annotated[
        str,
        typer.Option(
            "--cv-model",
            help="The model that is cross-validated: a logistic regression on `features` of the pretrained encoder, or "
            "the recipe itself, `finetuned` once per fold.",
            metavar="features|finetuned",
        ),
    ] = "features",
    limit: Annotated[
        int, typer.Option("--limit", help="The maximum number of mistakes and of label errors to list.", min=1)
    ] = 20,
    explain: ExplainMistakes = 0,
    json: options.Json = False,
) -> None:
    """Analyse the errors of a run."""
    if cv_model not in CV_MODELS:
        raise RecipeError(f"--cv-model {cv_model}: {nearest(cv_model, CV_MODELS)}")
    from warmstart.evaluation.run import RunFolder

    finished = RunFolder(run)  # refused here, before torch is imported
    from warmstart.cli import diagnosis_tables, screen
    from warmstart.diagnosis.confidence import ConfidenceOptions
    from warmstart.diagnosis.diagnose import DiagnosisOptions, diagnose
    from warmstart.diagnosis.label_errors import LabelErrorSearch
    from warmstart.evaluation.records.files import as_json

    confidence = ConfidenceOptions(target_precision or (), abstain or (), calibrate)
    search = LabelErrorSearch("finetuned" if cv_model == "finetuned" else "features", folds) if label_errors else None
    wanted = DiagnosisOptions(slice_by or (), confidence, search, limit, explain)
    diagnosis = diagnose(finished, wanted, progress=screen.Bars())
    if json:
        screen.print_json({"run": run, **as_json(diagnosis)})
    else:
        diagnosis_tables.show(run, diagnosis)
