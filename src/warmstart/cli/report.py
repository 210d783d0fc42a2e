"""warmstart report: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli import options


def command(
    run: Annotated[str, typer.Argument(help="A finished run.", metavar="RUN")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file to write. Default: report.html in the run's folder."),
    ] = None,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Also write a PDF, printed by Chromium or Chrome, if installed.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    json: options.Json = False,
) -> None:
    """Write a run's report and its model card."""
    from warmstart.evaluation.run import RunFolder

    RunFolder(run)  # refused here, before torch is imported
    from warmstart.cli import screen
    from warmstart.report.page import write_report
    from warmstart.report.pdf import print_pdf

    path = write_report(run, out)
    result: dict[str, Any] = {"run": run, "report": str(path), "bytes": path.stat().st_size}
    if pdf:
        result["pdf"] = str(print_pdf(path))
    if json:
        screen.print_json(result)
    else:
        screen.table(run, {name: value for name, value in result.items() if name != "run"})
    if open_:
        typer.launch(path.resolve().as_uri())
