"""What `warmstart predict --ray` adds: its options, and labelling a corpus."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated, Literal

import typer

from warmstart.errors import RecipeError, redact
from warmstart.options import Values

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Label a corpus with Ray, on this machine (`local`) or on the cluster at this address: --file is a file, "
        "folder or URI, --out a folder or URI. The same command resumes.",
        metavar="local|ADDRESS",
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", help="With --ray, the number of workers. Default: as many as fit.", min=1)
]
CpusPerWorker = Annotated[int, typer.Option("--cpus-per-worker", help="With --ray, CPUs per worker.", min=1)]
GpusPerWorker = Annotated[float, typer.Option("--gpus-per-worker", help="With --ray, GPUs per worker.", min=0)]
RowsPerShard = Annotated[
    int,
    typer.Option(
        "--rows-per-shard", help="With --ray, the number of rows that are labelled and written together.", min=1
    ),
]
FilesPerGroup = Annotated[
    int,
    typer.Option(
        "--files-per-group", help="With --ray, the number of input files that are planned and finished together.", min=1
    ),
]
KeepColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-column",
        help="A column of the input to write next to the predictions. Default: with --file all of them, with --ray the "
        "texts. With --ray, numbers stay numbers; NAME=text keeps a column as text.",
        metavar="COLUMN",
    ),
]
RetryTimeout = Annotated[
    float,
    typer.Option(
        "--retry-timeout",
        help="With --ray, the seconds for which a failure of storage, network or memory is retried, before the job "
        "ends with exit code 74.",
        min=0,
    ),
]
OnBadFile = Annotated[
    Literal["set-aside", "stop"],
    typer.Option("--on-bad-file", help="With --ray, whether a damaged file is set aside, or stops the job."),
]


DEFAULTS = {
    "workers": None,
    "cpus_per_worker": 1,
    "gpus_per_worker": 0,
    "rows_per_shard": 10_000,
    "files_per_group": 64,
    "retry_timeout": 600,
    "on_bad_file": "set-aside",
}
"""Options that mean nothing without --ray, and their defaults."""


def refuse(values: Values) -> None:
    """Refuse options of --ray without it."""
    for name, default in DEFAULTS.items():
        if values[name] not in (default, []):
            raise RecipeError(f"--{name.replace('_', '-')}: works only with --ray; add --ray local, or leave it out")


def label_corpus(run: str, reading: Values, values: Values) -> None:
    """Label a corpus with Ray."""
    file, out = values["file"], values["out"]
    if file is None or out is None or values["texts"] or values["documents"]:
        raise RecipeError("predict --ray: give --file and --out, each a folder or a URI, and no texts or --documents")
    if out.endswith((".parquet", ".csv", ".jsonl")):
        raise RecipeError(
            f"--out {out}: is named like a file; with --ray it is a folder of Parquet files, such as labelled/"
        )
    from warmstart.cli import screen
    from warmstart.deploy.label.label_corpus import label
    from warmstart.evaluation.file_reading import source_of

    names = ("workers", "rows_per_shard", "files_per_group", "engine", "precision", "retry_timeout", "on_bad_file")
    # Ray reports dead workers on standard output, which is for the manifest.
    with redirect_stdout(sys.stderr):
        manifest = label(
            run,
            source_of(run, file, reading),
            out,
            address=values["ray"],
            keep=values["keep_column"] or (),
            min_confidence=values["min_confidence"],
            progress=screen.Lines() if values["json"] else screen.Bars(),
            threads=values["cpus_per_worker"],
            gpus=values["gpus_per_worker"],
            **{name: values[name] for name in names},
        )
    if values["json"]:
        screen.print_json(manifest)
    else:
        aside, cut, bad = manifest["set_aside"], manifest["cut"], manifest["bad_files"]
        screen.errors.print(
            f"{manifest['answered']:,} predictions in {redact(out)}, {aside:,} rows set aside"
            + (f", {cut['rows_cut']:,} rows truncated by the window" if cut["rows_cut"] else "")
            + (f"; {len(bad):,} damaged files, such as {next(iter(bad))}" if bad else ""),
            markup=False,
            highlight=False,
        )
