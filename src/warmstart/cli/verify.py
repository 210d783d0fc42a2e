"""warmstart verify: a finished run, stage or labelled corpus, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RunError


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
        screen.print_json({"folder": out, "kind": kind, "damages": damages})
    elif damages:
        for damage in damages:
            typer.echo(damage)
    else:
        typer.echo(f"{out}: every file is as it was written")
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
    from warmstart.storage.damages import folder_damages, published_folders

    folder = Path(out)
    if file is not None:
        raise RunError(f"--file: works only with a labelled corpus, which {out} is not; leave it out")
    folders = published_folders(folder)
    if not folders:
        raise RunError(f"{out}: found no manifest.json, expected a finished run, stage or labelled corpus")
    return "run or stage", [damage for each in folders for damage in folder_damages(each)]
