"""warmstart import: a checkpoint of BERT that TensorFlow wrote, as a folder that opens in plain transformers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli import options


def command(
    folder: Annotated[
        str,
        typer.Argument(
            help="The folder with the checkpoint's files, bert_config.json and vocab.txt.", metavar="CHECKPOINT_FOLDER"
        ),
    ],
    out: Annotated[str, typer.Option("--out", help="The folder for the model.")],
    lower_case: Annotated[
        bool | None,
        typer.Option(
            "--lower-case/--no-lower-case",
            help="Whether the tokenizer puts texts in lower case, which no file of a checkpoint says. Default: not, if "
            "the vocabulary has words with capitals.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a model folder from a checkpoint, every tensor compared with its checksum."""
    from warmstart.cli import screen
    from warmstart.models.tensorflow.import_bert import import_bert

    progress = screen.Lines() if json else screen.Bars()
    with progress.bar("reading tensors", None) as bar:
        imported = import_bert(Path(folder), Path(out), lower_case, bar.advance)
    about = {**asdict(imported), "folder": str(imported.folder), "left_out": len(imported.left_out)}
    if json:
        screen.print_json(about)
        return
    screen.table(str(imported.folder), about)
