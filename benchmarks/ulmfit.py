"""What each stage of ULMFiT is worth, and each piece of its last one, on IMDb and TREC with 100, 500 and more labels.

A recurrent language model of half the published size, from nothing; pretrained on WikiText-2; fine-tuned on the task's
texts as well; and in both directions. Then the paper's ablation of the last stage. Stages are shared by all seeds and
sets that ask for the same; runs are in .cache/ulmfit/ and the figures of each in docs/results/figures/, so a stopped
measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path
from typing import Any

import kept
from common import ROOT, TINY, finish, write_page
from tables import ABOUT, Lines, asking, chosen, errors_told, means, table
from ulmfit_sets import CACHE, SETS, data_of, wikitext

SIZES = {"hidden_size": 576, "embedding_size": 200, "vocab_size": 30_000}
if TINY:
    SIZES = {"hidden_size": 16, "embedding_size": 8, "vocab_size": 1000, "num_layers": 2}
SCRATCH = {"architecture": "awd-lstm", "case_marks": True, **SIZES}
EPOCHS = {"wikitext": 1, "task": 1, "last": 20} if TINY else {"wikitext": 5, "task": 10, "last": 8}
BOTH = "both directions"
ABLATED = ("trec-500", "imdb-500")


def pretrain(corpus: Any, epochs: int, **layers: float) -> dict[str, Any]:
    """A stage that learns the next word of raw text."""
    training = {"learning_rate": 5e-3, "lr_schedule": "slanted-triangular", "epochs": epochs, "batch_size": 64}
    return {
        "pretrain": {
            "corpus": corpus,
            "objective": "clm",
            "task": {"bptt": 70},
            "layers": layers,
            "training": {**training, "max_grad_norm": 0.25},
        }
    }


def variants(name: str) -> dict[str, dict[str, Any]]:
    """The starts to try on a set, and on some sets the pieces of the last stage."""
    general = pretrain({"in-domain": [str(wikitext("train", 30 if TINY else None))]}, EPOCHS["wikitext"])
    own = pretrain("within-task", EPOCHS["task"], lr_decay=0.385)
    full = {"stages": [general, own], "layers.lr_decay": 0.385, "layers.unfreeze": "gradual"}
    every: dict[str, dict[str, Any]] = {
        "from nothing": {"layers.unfreeze": "all"},
        "pretrained": {**full, "stages": [general]},
        "ULMFiT": full,
        "ULMFiT backward": {**full, "from_scratch.direction": "backward"},
        BOTH: full,
    }
    if name not in ABLATED:
        return every
    plain = {**full, "layers.lr_decay": 1.0}
    return every | {
        "all at once": {**full, "layers.unfreeze": "all"},
        "last layer only": {**full, "layers.unfreeze": "all", "layers.freeze": (SIZES.get("num_layers") or 3) + 1},
        "chain-thaw": {**full, "layers.unfreeze": "chain-thaw"},
        "gradual, one rate": plain,
        "all at once, one rate": {**plain, "layers.unfreeze": "all"},
        "cosine": {**full, "training.lr_schedule": "cosine"},
        "linear": {**full, "training.lr_schedule": "linear"},
    }


def recipe_of(name: str) -> dict[str, Any]:
    """What all variants of a set have."""
    last = {"learning_rate": 1e-2, "lr_schedule": "slanted-triangular", "epochs": EPOCHS["last"], "batch_size": 32}
    trainer = {"trainer.adam_beta1": 0.7, "trainer.adam_beta2": 0.99}
    return {
        "from_scratch": {**SCRATCH, "direction": "forward"},
        **{f"training.{key}": value for key, value in last.items()},
        **trainer,
        **data_of(name),
    }


def asked_for(name: str) -> dict[str, str]:
    """The settings of each variant of a set, as kept figures name them."""
    return {one: kept.settings([recipe_of(name), changes, one]) for one, changes in variants(name).items()}


def run(name: str, one: str, changes: dict[str, Any], seed: int) -> list[Any]:
    """One variant with one seed; of both directions, the two models as one."""
    from warmstart.evaluation.run_result import read_result
    from warmstart.experiments.evidence import run_repeated
    from warmstart.experiments.repeat import remove_weights, repeat
    from warmstart.recipe import make_recipe

    if one != BOTH:
        return repeat(recipe_of(name), {one: changes}, [seed], CACHE / name, Lines(name), keep="numbers")
    given = {**recipe_of(name), **changes, "from_scratch.direction": "both", "seed": seed}
    folder: Path = run_repeated(make_recipe(given), CACHE / name / one / f"seed-{seed}", Lines(name)).folder
    remove_weights(folder)
    return [read_result(folder, one, seed)]


def sample(args: argparse.Namespace) -> dict[str, list[Any]]:
    """Carry out all that is asked for, and keep nothing."""
    runs = product(chosen(args.sets, SETS), range(args.n))
    return {
        name: [
            row for one in chosen(args.variants, variants(name)) for row in run(name, one, variants(name)[one], seed)
        ]
        for name, seed in runs
    }


def train(args: argparse.Namespace) -> None:
    """Carry out what is missing."""
    for name in chosen(args.sets, SETS):
        known, asked = variants(name), asked_for(name)
        there = {(row.variant, row.seed) for row in kept.read_rows(f"ulmfit-{name}", asked)}
        for seed, one in product(range(args.n), chosen(args.variants, known)):
            if (one, seed) not in there:
                kept.keep_rows(f"ulmfit-{name}", run(name, one, known[one], seed), asked)


def page(results: dict[str, list[Any]]) -> str:
    """The page's body: a picture of the error against labels, and a table for each set."""
    intro = (
        "An AWD-LSTM of half the published size (3 × 576 over 200), with a vocabulary of WikiText-2's words: what each "
        "stage of ULMFiT is worth, and each piece of the last one. Figures of each run are in `docs/results/figures/`."
    )
    reference = dict.fromkeys(variants(ABLATED[0]), "ULMFiT") | {"ULMFiT": "from nothing"}
    tables = [table(SETS[name].about, rows, reference) for name, rows in results.items()]
    return "\n\n".join([intro, ABOUT, *pictures(results), *tables])


def pictures(results: dict[str, list[Any]]) -> list[str]:
    """Error against labels, a line for each start, for each task, written beside the page."""
    from warmstart.experiments.sweep_plots import new_figure, save_figure

    drawn = []
    for task in ("trec", "imdb"):
        lines: dict[str, list[tuple[int, float]]] = {}
        for name, rows in results.items():
            if name.startswith(task):
                labels = 5452 if name.endswith("all") else int(name.rpartition("-")[2])
                for variant, mean in means(rows).items():
                    lines.setdefault(variant, []).append((labels, 100 * (1 - mean)))
        figure, axes = new_figure(8, 4.5)
        for variant, points in lines.items():
            if len(points) > 1:
                axes.plot(*zip(*points, strict=True), marker="o", label=variant)
        axes.set(xscale="log", xlabel="labels", ylabel="error in percent")
        axes.legend()
        path = ROOT / "docs" / "results" / f"ulmfit-{task}.svg"
        save_figure(figure, path)
        drawn.append(f"![Error against labels on {task}]({path.name})")
    return drawn


def main() -> None:
    """Train what is missing, then report on all that is there."""
    args = asking(__doc__, 3, SETS, "ulmfit").parse_args()
    os.environ["WARMSTART_CACHE"] = str(CACHE / "store")
    if TINY:
        finish({name: means(rows) for name, rows in sample(args).items()})
        return
    if not args.no_train:
        with errors_told():
            train(args)
    results = {name: rows for name in SETS if (rows := kept.read_rows(f"ulmfit-{name}", asked_for(name)))}
    if args.write:
        write_page("ulmfit", "What each stage of ULMFiT is worth", "make results-ulmfit", page(results))
    finish({name: means(rows) for name, rows in results.items()})


if __name__ == "__main__":
    main()
