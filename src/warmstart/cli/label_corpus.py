"""What `warmstart predict --ray` adds: its options, and a corpus labelled."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer

from warmstart.errors import RecipeError

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Label --file, which may be a folder or a URI, into the folder or URI --out with Ray: `local`, or the "
        "address of a cluster. Run again, it goes on.",
        metavar="local|ADDRESS",
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="With --ray, models that answer at once; as many as there is room for.", min=1)
]
Threads = Annotated[int, typer.Option(help="With --ray, CPUs of a worker.", min=1)]
Gpus = Annotated[float, typer.Option(help="With --ray, GPUs of a worker.", min=0)]
RowsPerShard = Annotated[int, typer.Option(help="With --ray, rows that are answered and published as one.", min=1)]
FilesPerGroup = Annotated[
    int, typer.Option(help="With --ray, input files that are planned and closed together.", min=1)
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="With --ray, a column of the input to keep beside the answers, instead of those that were asked.",
        metavar="COLUMN",
    ),
]


ALONE = {"workers": None, "threads": 1, "gpus": 0, "rows_per_shard": 10_000, "files_per_group": 64, "keep": None}
"""Options that mean nothing without --ray, and what they are where they were not said."""


def refuse(said: dict[str, Any]) -> None:
    """Refuse options that only --ray knows where it was not said."""
    for name, usual in ALONE.items():
        if said[name] not in (usual, []):
            raise RecipeError(
                f"--{name.replace('_', '-')}: is for --ray alone; say --ray local as well, or leave it out"
            )


def label_corpus(run: str, reading: dict[str, Any], said: dict[str, Any]) -> None:
    """Label a corpus with Ray."""
    file, out = said["file"], said["out"]
    if file is None or out is None or said["texts"] or said["documents"]:
        raise RecipeError("predict --ray: give --file and --out, each a folder or a URI, and no texts or --documents")
    if out.endswith((".parquet", ".csv", ".jsonl")):
        raise RecipeError(
            f"--out {out}: is named like a file; with --ray it is a folder of Parquet files, as labelled/"
        )
    from warmstart.cli import screen
    from warmstart.cli.reading_options import source_of
    from warmstart.deploy.label.label_corpus import label

    names = ("workers", "threads", "gpus", "rows_per_shard", "files_per_group", "engine", "precision")
    # Ray tells on standard output when a worker died; that is kept for the manifest.
    with redirect_stdout(sys.stderr):
        manifest = label(
            run,
            source_of(run, file, reading),
            out,
            address=said["ray"],
            keep=said["keep"] or (),
            least=said["least_confidence"],
            progress=screen.Lines() if said["json"] else screen.Bars(),
            **{name: said[name] for name in names},
        )
    if said["json"]:
        screen.print_json(manifest)
    else:
        aside, cut = manifest["set_aside"], manifest["cut"]
        screen.errors.print(
            f"{manifest['answered']:,} answers in {out}, {aside:,} rows set aside"
            + (f", {cut['rows_cut']:,} rows cut by the window" if cut["rows_cut"] else ""),
            markup=False,
            highlight=False,
        )
