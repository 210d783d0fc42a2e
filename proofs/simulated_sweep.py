"""A sweep in miniature: trials of `simulated_training`, with warmstart's own workers, claims and journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from simulated_disk import ROOT
from simulated_training import ROWS
from warmstart.errors import RecipeError
from warmstart.experiments import sweep as module
from warmstart.experiments import sweep_results
from warmstart.recipe import Recipe, Sweep, load_sweep, make_recipe

FOLDER = Path(ROOT) / "sweep"
TRIALS = 2


@cache
def wanted() -> tuple[Sweep, Recipe, str]:
    """The sweep, its recipe, and how it is written."""
    search = {"training.learning_rate": {"low": 1e-5, "high": 1e-4, "log": True}, "training.batch_size": [8, 16]}
    values = {"model": "plain", "data.train": ROWS, "data.split.dev": 0.1, "checkpoints.keep_last": 1}
    recipe = make_recipe(values, "recipe")
    sweep, _ = load_sweep(None, {"search": search, "sampler": "random", "trials": TRIALS}, recipe)
    return sweep, recipe, module._complete(sweep, recipe).yaml()


def search() -> None:
    """Begin or resume the sweep, take part in it until it is done, and write its results."""
    sweep, recipe, _ = wanted()
    module.begin_sweep(sweep, recipe, FOLDER)
    module.SweepWorker(FOLDER).run()
    sweep_results.write_results(FOLDER)


@contextmanager
def in_miniature() -> Iterator[None]:
    """Read and write the sweep's own file without YAML, which is slow, and draw no plots."""
    sweep, recipe, text = wanted()
    complete = module._complete(sweep, recipe)

    def read(path: Path) -> tuple[Sweep, Recipe]:
        if path.read_text(encoding="utf-8") != text:
            raise RecipeError(f"{path}: not YAML")
        return complete, recipe

    replaced: list[tuple[Any, str, Any]] = [
        (module, "load_sweep", read),
        (module, "_complete", lambda *_: complete),
        (module, "absolute", lambda recipe: recipe),
        (Sweep, "yaml", lambda _: text),
        (sweep_results, "load_sweep", read),
        (sweep_results, "plot_history", lambda *_: None),
        (sweep_results.RunFolder, "recipe", recipe),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
