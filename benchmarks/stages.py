"""What a stage before the fine-tuning is worth: further pre-training within the task, in its domain, in others, and
several tasks together, each beside plain fine-tuning on the same labelled rows.

All pre-trainings have the same number of steps, and so has the multi-task stage. Stages are shared by all seeds and
sets that ask for the same; runs are in .cache/stages/ and the figures of each in docs/results/figures/, so a stopped
measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from typing import Any

import kept
from common import finish, weights, write_page
from stage_sets import CACHE, CORPORA, SETS, corpus, data_of, others
from tables import ABOUT, Lines, asking, chosen, errors_told, means, table

STEPS = 200
"""Optimizer steps of every stage before the fine-tuning."""
BATCH, TOKENS, RATE = 32, 128, 1e-4
TRAINING = {"learning_rate": RATE, "batch_size": BATCH}


def pretrain(on: Any) -> dict[str, Any]:
    """A stage that learns from raw text."""
    return {"pretrain": {"corpus": on, "max_tokens": TOKENS, "steps": STEPS, "training": TRAINING}}


def variants(name: str) -> dict[str, dict[str, Any]]:
    """The stages to try on a set."""
    near, far = CORPORA[name]
    together = {"with": others(name, weights("minilm")), "training": {**TRAINING, "max_steps": STEPS}}
    return {
        "plain": {},
        "within-task": {"stages": [pretrain("within-task")]},
        "in-domain": {"stages": [pretrain({"in-domain": [str(corpus(one)) for one in near]})]},
        "cross-domain": {"stages": [pretrain({"cross-domain": [str(corpus(one)) for one in far]})]},
        "multi-task": {"stages": [{"multitask": together}]},
    }


CHANGED = {"multi-task": "keeps the pooler", "cross-domain": "reads the texts of the task too"}
"""What a stage does since its settings were first measured: figures from before are of another stage."""


def recipe_of(name: str) -> dict[str, Any]:
    """What all variants of a set have."""
    return {"model": weights("minilm"), **data_of(name), **SETS[name].recipe}


def asked_for(name: str) -> dict[str, str]:
    """The settings of each variant of a set, as kept figures name them."""
    asked = {one: [recipe_of(name), changes] for one, changes in variants(name).items()}
    return {one: kept.settings([*of, CHANGED[one]] if one in CHANGED else of) for one, of in asked.items()}


def train(args: argparse.Namespace) -> None:
    """Carry out what is missing."""
    from warmstart.experiments.repeat import repeat

    # The store of stages lies with the runs, so that removing the folder measures all anew.
    os.environ["WARMSTART_CACHE"] = str(CACHE / "store")
    for name in chosen(args.sets, SETS):
        known, asked = variants(name), asked_for(name)
        there = {(row.variant, row.seed) for row in kept.read_rows(f"stages-{name}", asked)}
        for seed, one in product(range(args.n), chosen(args.variants, known)):
            if (one, seed) not in there:
                rows = repeat(recipe_of(name), {one: known[one]}, [seed], CACHE / name, Lines(name), keep="numbers")
                kept.keep_rows(f"stages-{name}", rows, asked)


HEADLINE = "No stage clearly helped here: with three seeds, none of the nine differences is significant."

READING = """
- **Multi-task training** is ahead of plain fine-tuning on IMDb, by 2.4 points, where two of the three other tasks are
  also about films, and level on the others (-0.1 and +0.2). On IMDb, the interval over test rows is above zero (+0.8 to
  +3.9), but that over seeds is not (-1.8 to +6.5). Of all stages, it is the one to try first.
- **Continued pretraining** did not help on any dataset: it is 0.1 to 1.5 points below plain fine-tuning in all six
  cases. The clearest loss is within-task on TREC, 1.0 points, according to both intervals, though not after the
  correction for three comparisons.

The multi-task rows are newer than the others: the stage now keeps the encoder's pretrained pooler, which the
fine-tuning after it drew anew before. That made no difference that could be seen (80.9, 94.4 and 83.9% before). A plain
run that was repeated with them, on rt-polarity, has 81.1% where it had 80.9. Cross-domain pretraining, which now reads
the texts of the training rows as well, has not been measured since, and its rows are left out. All rows of continued
pretraining are without next-sentence prediction, which the recipes that come with warmstart have.

Limitations: 200 steps are few, and this encoder was trained on a billion sentence pairs after its own pretraining,
which masked language modeling does not continue. Whether that is the reason was not measured. The minutes of the plain
runs on TREC include a pause of one of them; those of the multi-task runs were measured on a busier machine.
"""
"""What the tables say, in plain words; written by hand after looking at them."""


def page(found: dict[str, list[Any]]) -> str:
    """The page's body."""
    intro = (
        f"Each stage alone before the same fine-tuning of all-MiniLM-L6-v2: {STEPS} steps of {BATCH} sequences of at "
        f"most {TOKENS} tokens with a learning rate of {RATE:g} and 15% of the tokens masked; for the multi-task "
        f"stage, {STEPS} steps of {BATCH} rows, with tasks sampled by the square root of their size. The texts and "
        "tasks of each are in `benchmarks/stage_sets.py`, the figures of each run in `docs/results/figures/`."
    )
    reference = dict.fromkeys(("within-task", "in-domain", "cross-domain", "multi-task"), "plain")
    tables = [table(SETS[name].about, rows, reference) for name, rows in found.items()]
    return "\n\n".join([HEADLINE, intro, ABOUT, READING.strip(), *tables])


def main() -> None:
    """Train what is missing, then report on all that is there."""
    args = asking(__doc__, 3, SETS, "stages").parse_args()
    if not args.no_train:
        with errors_told():
            train(args)
    found = {name: rows for name in SETS if (rows := kept.read_rows(f"stages-{name}", asked_for(name)))}
    if args.write:
        write_page("stages", "What a stage before the fine-tuning is worth", "make results-stages", page(found))
    finish({name: means(rows) for name, rows in found.items()})


if __name__ == "__main__":
    main()
