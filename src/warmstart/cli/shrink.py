"""warmstart shrink: a smaller model from a run, kept only if it passes a gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.shrinking.record import Shrunk


MinRatio = Annotated[
    float,
    typer.Option(
        "--min-ratio",
        help="The share of the original's score on the dev rows that must be reached, by the lower end of a paired "
        "95% interval.",
    ),
]
Remove = Annotated[
    int | None,
    typer.Option(
        "--remove",
        help="How many blocks to remove; 0 for none. Default: half of them, or else a third, or else a sixth.",
        min=0,
        show_default=False,
    ),
]
RemoveHeads = Annotated[
    int,
    typer.Option(
        "--remove-heads",
        help="How many attention heads to remove from each block, where the config of the architecture can say so.",
        min=0,
    ),
]
EmbeddingSize = Annotated[
    int | None,
    typer.Option(
        "--embedding-size",
        help="Factorize the embeddings into ones of this size and a projection, where the architecture allows it.",
        metavar="K",
        show_default=False,
    ),
]
Vocabulary = Annotated[
    bool,
    typer.Option("--vocabulary/--no-vocabulary", help="Remove the tokens that no text uses."),
]
Texts = Annotated[
    str | None,
    typer.Option(
        "--texts",
        help="A file of more texts: their tokens stay in the vocabulary, and the unshrunk model answers them for "
        "--train-back distil.",
        metavar="FILE",
    ),
]
TrainBack = Annotated[
    Literal["labels", "distil"],
    typer.Option(
        "--train-back",
        help="What the smaller model learns: the labels of the training rows, or also what the unshrunk model "
        "answers to their texts (distil).",
    ),
]
Int8 = Annotated[
    str | None,
    typer.Option(
        "--int8",
        help="A folder for an ONNX export of the smaller model, quantized to int8, written if it passes the same gate.",
        metavar="FOLDER",
    ),
]


def command(
    run: Annotated[str, typer.Argument(help="A finished run that has dev rows.", metavar="RUN")],
    out: Annotated[str, typer.Option("--out", help="The folder for the smaller model.", metavar="FOLDER")],
    min_ratio: MinRatio = 0.99,
    remove: Remove = None,
    remove_heads: RemoveHeads = 0,
    embedding_size: EmbeddingSize = None,
    vocabulary: Vocabulary = True,
    texts: Texts = None,
    train_back: TrainBack = "labels",
    int8: Int8 = None,
    json: options.Json = False,
) -> None:
    """Make a smaller model from a run."""
    from warmstart.evaluation.run import RunFolder

    finished = RunFolder(run)  # refused here, before torch is imported
    from dataclasses import asdict

    from warmstart import tasks
    from warmstart.cli import screen
    from warmstart.evaluation.file_reading import source_of
    from warmstart.shrinking.record import ShrinkOptions
    from warmstart.shrinking.shrink_run import shrink_run

    source = None
    if texts is not None:
        schema = tasks.schema_of(finished.recipe.task.name, finished.recipe.task.options).without_answers()
        source = source_of(run, texts, {}, schema)
    quantized = Path(int8) if int8 else None
    wanted = ShrinkOptions(min_ratio, remove, vocabulary, quantized, train_back, remove_heads, embedding_size)
    shrunk = shrink_run(finished, Path(out), wanted, texts=source, progress=screen.Bars())
    if json:
        screen.print_json({"run": run, **asdict(shrunk)})
    else:
        _show(run, shrunk)


def _show(run: str, shrunk: Shrunk) -> None:
    from warmstart.cli import screen

    attempt = shrunk.attempts[-1]
    gate, size = attempt.gate, attempt.embedding_size
    rows = {
        "blocks": f"{shrunk.blocks[1]} of {shrunk.blocks[0]}",
        **({"heads in each": f"{shrunk.heads[1]} of {shrunk.heads[0]}"} if shrunk.heads[1] < shrunk.heads[0] else {}),
        "tokens": f"{shrunk.tokens[1]:,} of {shrunk.tokens[0]:,}",
        **({"embedding size": str(size)} if size else {}),
        "parameters": f"{shrunk.parameters[1]:,} of {shrunk.parameters[0]:,}",
        "score on dev": f"{gate.smaller:.4f}, {gate.ratio:.4f} of {gate.original:.4f} ({gate.rows:,} rows)",
        "gate": f"passed: surely at least {gate.min_ratio} of it, with {gate.low:+.4f} to spare",
        "attempts": str(len(shrunk.attempts)),
    }
    if (quantized := shrunk.int8) is not None:
        rows["int8"] = (
            f"{quantized.smaller:.4f}, {quantized.ratio:.4f} of {quantized.original:.4f}: "
            f"{'passed' if quantized.passed else 'not written'}"
        )
    screen.table(f"{shrunk.folder}, from {run}", rows)
    for note in shrunk.notes:
        screen.errors.print(note, markup=False, highlight=False, soft_wrap=True)
