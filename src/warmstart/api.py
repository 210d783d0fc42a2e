"""The calls most people need: `fit`, `load`, `export`, `compare` and `features`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from warmstart import processes
from warmstart.deploy.features import Extractor, Vectors
from warmstart.deploy.predictor import Predictor, Text
from warmstart.errors import RecipeError
from warmstart.experiments.beside import Beside, beside
from warmstart.experiments.evidence import gather
from warmstart.exporting import export
from warmstart.pipeline import carry_out
from warmstart.progress import Progress, silent
from warmstart.recipe import SHIPPED, Recipe, load_recipe, make_recipe
from warmstart.reporting.card import write_card
from warmstart.reporting.facts import read_facts
from warmstart.run import Run

__all__ = ["compare", "default_folder", "export", "features", "fit", "load"]


def fit(
    recipe: str | Path | Recipe | None = None,
    *,
    out: str | Path | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    train: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    progress: Progress = silent,
    resume_anyway: Iterable[str] = (),
    **parts: Any,
) -> Run:
    """Train a model and measure it.

    Args:
        recipe: A recipe file, `recipes:NAME` for one that comes with warmstart, or a `Recipe`; or none, and everything
            said by the other arguments.
        out: The run's folder; `runs/` and the name of the recipe or the training file by default.
        text: The file's column with the text; `pair` and `label` likewise.
        train: The training file; `dev` and `test` likewise.
        progress: What shows progress; nothing by default.
        resume_anyway: What may differ from when a run in `out` was stopped, by the names its refusal gives.
        parts: Any field of a recipe: `model=…`, `task="score"`, `learn={"rate": 1e-4}`, `window={"tokens": 128}`.
    """
    said = {"data.train": train, "data.dev": dev, "data.test": test}
    said |= {"data.columns.text": text, "data.columns.pair": pair, "data.columns.label": label}
    changes = {**parts, **{key: value for key, value in said.items() if value is not None}}
    if isinstance(recipe, Recipe):
        if changes:
            raise RecipeError(f"fit: a Recipe is complete; put {', '.join(changes)} into it")
        made = recipe
    else:
        made = load_recipe(recipe, changes) if recipe is not None else make_recipe(changes, "fit")
    own = isinstance(recipe, str | Path) and not str(recipe).startswith(SHIPPED)
    folder = out or default_folder(made, str(recipe) if own else None)
    do = gather if made.repeated or made.keep != "best" else carry_out
    run = do(made, folder, progress, resume_anyway=resume_anyway)
    if processes.is_main():
        write_card(read_facts(run.folder))
    return run


def load(path: str | Path, precision: str = "fp32", engine: str = "torch") -> Predictor:
    """Open a run, or the model folder of one, ready to answer."""
    return Predictor.load(path, precision, engine)


def compare(runs: Sequence[str | Path]) -> Beside:
    """Hold finished runs side by side, each compared with the first: by how much they differ, and how sure that is.

    Args:
        runs: Runs, runs of several seeds, or folders of runs `seed-0`, `seed-1` ….
    """
    return beside(runs)


def features(
    texts: Iterable[Text],
    model: str | Path,
    layers: str | int = "last",
    tokens: str = "mean",
    *,
    window: int | None = None,
    keep: str | None = None,
    batch: int = 64,
    precision: str = "fp32",
) -> Vectors:
    """Vectors of texts from any layer of an encoder, in one array of shape (texts, width).

    For more texts than fit into memory take `Extractor`, whose `stream` gives some at a time.

    Args:
        texts: Texts, or pairs of them.
        model: The encoder: a folder, a name on the Hugging Face Hub, or a run.
        layers: As in `Extractor`; `all` gives an array of shape (texts, layers, width).
        tokens: As in `Extractor`.
        window: As in `Extractor.load`, like `keep` and `precision`.
        batch: The most rows of tokens that are computed at once.
    """
    return Extractor.load(model, layers, tokens, window, keep, precision).vectors(texts, batch)


def default_folder(recipe: Recipe, path: str | Path | None = None) -> Path:
    """`runs/` and the name of the recipe file, or of the training file."""
    reading = recipe.data.reading("train") or {}
    name = Path(path).name if path else Path(str(reading["files"][0]).removeprefix("hub:")).name
    return Path("runs") / name.partition(".")[0].partition(":")[0]
