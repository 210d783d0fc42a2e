"""warmstart verify: a finished run, stage or labelled corpus, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RunError, redact


def command(
    out: Annotated[
        str, typer.Argument(help="A run, a stage, a model folder, or a labelled corpus (also by URI).", metavar="OUT")
    ],
    file: Annotated[
        str | None,
        typer.Option("--file", help="The corpus that was labelled, to see whether it has changed.", metavar="FILE"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read everything again, and name what is not as it was written."""
    from warmstart.cli import screen

    kind, damages = _labelled(out, file) or _published(out, file)
    if json:
        screen.print_json({"folder": redact(out), "kind": kind, "damages": damages})
    elif damages:
        for damage in damages:
            typer.echo(damage)
    else:
        typer.echo(f"{redact(out)}: every file is as it was written")
    if damages:
        raise typer.Exit(RunError.exit_code)


def _labelled(out: str, file: str | None) -> tuple[str, list[str]] | None:
    """What is wrong with a labelled corpus; None where it is something else."""
    from warmstart.deploy.label.locations import Folder, split
    from warmstart.deploy.label.shards import PLAN
    from warmstart.deploy.label.verification import corpus_damages

    folder = Folder(out)
    if "://" not in out and not any(Path(out).glob("group-*")) and not (Path(out) / PLAN).is_file():
        return None
    return "labelled corpus", corpus_damages(folder, split(file)[0] if file else None)


def _published(out: str, file: str | None) -> tuple[str, list[str]]:
    """What is wrong with a run, or with any other folder that has manifests."""
    from warmstart.evaluation.records import metrics
    from warmstart.storage.artifacts import MANIFEST
    from warmstart.storage.damages import damages, published_folders

    folder = Path(out)
    if file is not None:
        raise RunError(f"--file: works only with a labelled corpus, which {out} is not; leave it out")
    lines = damages(folder)
    if (folder / metrics.FILE).is_file() and not (folder / MANIFEST).exists():
        lines.append(f"{folder / MANIFEST} is missing; it was removed, or the run is of a version that wrote none")
    elif not lines and not published_folders(folder):
        raise RunError(f"{out}: found no {MANIFEST}, expected a finished run, stage or labelled corpus")
    return "run or stage", lines
