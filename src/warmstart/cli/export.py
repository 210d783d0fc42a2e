"""warmstart export: a run's model as an ONNX graph, for ONNX Runtime and OpenVINO."""

from __future__ import annotations

from typing import Annotated

import typer

from warmstart.cli import options


def command(
    run: Annotated[str, typer.Argument(help="A finished run.", metavar="RUN")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Also write a model quantized to int8, if it loses little accuracy.")
    ] = False,
    max_drop: Annotated[
        float,
        typer.Option("--max-drop", help="How much of the headline metric int8 may lose, in percentage points.", min=0),
    ] = 0.5,
    out: Annotated[
        str | None, typer.Option("--out", help="The folder for the exported model. Default: onnx in the run's folder.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a run's model for another engine, checked on the run's test rows."""
    from warmstart.inference.folders import model_folder

    model_folder(run)  # refused here, before torch is imported
    from warmstart.cli import screen
    from warmstart.experiments.export_run import export

    result = export(run, out, int8=int8, max_drop=max_drop, progress=screen.Lines() if json else screen.Bars())
    if json:
        screen.print_json(result)
        return
    worst = {name: engine.get("worst") for name, engine in result["engines"].items()}
    rows = [
        {"engine": name, result["headline"]: value, "largest difference": _apart(worst, name)}
        for name, value in result["values"].items()
    ]
    if "int8" in result:
        rows.append({"engine": "onnx int8", result["headline"]: result["int8"]["value"], "largest difference": "–"})
    screen.grid(f"{result['folder']}, checked on {result['rows']:,} of {result['of']:,} test rows", rows)
    for name, engine in result["engines"].items():
        if refused := engine.get("refused"):
            screen.warn(f"not for --engine {name}: {refused}")


def _apart(worst: dict[str, float | None], name: str) -> str:
    difference = worst.get(name.split()[0])
    return "–" if difference is None else f"{difference:.1e}"
