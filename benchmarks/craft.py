"""What each piece of the craft of fine-tuning is worth: one variant each, beside plain fine-tuning, over several seeds.

`plain` is what `transformers.Trainer` does by default: rate 5e-5, 3 epochs, batch 32, linear schedule with a tenth of
warm-up. Rows of like length share a batch throughout, which nearly halves the time; `random-order` shows what else that
changes. Runs are kept in .cache/craft/, so a stopped measurement goes on where it was, several processes may share the
work, and the page is written from the runs that are there.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

from common import finish, weights, write_page
from craft_sets import CACHE, SETS, data_of
from tables import ABOUT, Lines, asking, chosen, errors_told, means, table

MODELS = ("minilm", "e5-small", "mpnet-base")
TEN = {"training.epochs": 10}
DEFAULTS = {"training.epochs": None, "training.min_steps": 300}


@dataclass(frozen=True)
class Variant:
    """What a variant changes, and the variant that it is compared with."""

    changes: dict[str, Any] = field(default_factory=dict)
    reference: str = "plain"


SHORT = {
    "plain": Variant(),
    # One piece each, with the three epochs of plain.
    "decay-0.95": Variant({"layers.lr_decay": 0.95}),
    "decay-1-over-2.6": Variant({"layers.lr_decay": 0.3846}),
    "head-rate-1e-3": Variant({"head.learning_rate": 1e-3}),
    "gradual": Variant({"layers.unfreeze": "gradual"}),
    "head-first": Variant({"layers.unfreeze": "head-first"}),
    "slanted": Variant({"training.lr_schedule": "slanted-triangular"}),
    "cosine": Variant({"training.lr_schedule": "cosine"}),
    "renew-1": Variant({"layers.reinit_top": 1}),
    "smoothing": Variant({"training.label_smoothing": 0.1}),
    "rdrop": Variant({"training.r_drop": 1.0}),
    "mean-tokens": Variant({"head.pooling": "mean"}),
    "concat-4": Variant({"head.layers": "concat-4"}),
    "random-order": Variant({"training.batching": "random"}),
    "longer": Variant(TEN),
    "rate-1e-4": Variant({"training.learning_rate": 1e-4}),
    "rate-2e-4": Variant({"training.learning_rate": 2e-4}),
    # One piece each on top of ten epochs.
    "longer+decay-0.95": Variant({**TEN, "layers.lr_decay": 0.95}, "longer"),
    "longer+gradual": Variant({**TEN, "layers.unfreeze": "gradual"}, "longer"),
    "longer+mean-tokens": Variant({**TEN, "head.pooling": "mean"}, "longer"),
    "longer+rate-1e-4": Variant({**TEN, "training.learning_rate": 1e-4}, "longer"),
    "longer+average-3": Variant({**TEN, "training.average_last_epochs": 3}, "longer"),
    # What `warmstart fit` does where nothing is said; and on top of that, the pieces that helped.
    "defaults": Variant(DEFAULTS),
    "best": Variant({**DEFAULTS, "head.pooling": "mean", "training.learning_rate": 1e-4}),
}
SLICES = {"window.method": "slices", "window.max_slices": 2}
"""At most two slices a text, which bounds the time."""
LONG = {
    "head": Variant({}, "head"),
    "tail": Variant({"window.method": "tail"}, "head"),
    "head+tail": Variant({"window.method": "head+tail"}, "head"),
    "slices-mean": Variant({**SLICES, "window.slice_pooling": "mean"}, "head"),
    "slices-max": Variant({**SLICES, "window.slice_pooling": "max"}, "head"),
    "slices-attention": Variant({**SLICES, "window.slice_pooling": "attention"}, "head"),
}
VARIANTS = {"rt": SHORT, "trec": SHORT, "banking": SHORT, "long": LONG}

READING = """
**What paid.** Training longer, before anything else. Three epochs over 300 to 770 rows are 30 to 75 steps, after
which plain fine-tuning has hardly begun: on TREC three seeds of five are no better than always giving one answer. Ten
epochs bring 8, 61 and 12 points. Then the tokens that the head reads: the mean of all instead of the first brings 3,
33 and 5 points at three epochs, and 1, 2 and 22 on top of ten. This encoder was pretrained with that mean, so another
may gain less, and the model then has a head of our own, which plain `transformers` opens only after one import.
`best`, the mean of all tokens with twice the rate and the steps of the defaults, is the best on TREC and on banking77,
where it is 29 points above the defaults, and within a tenth of a point of the best on rt-polarity. It was put together
after looking at the other rows, so its numbers are a little too good.

**Long texts.** The end of a film review says more than its beginning: `tail` is 13 points better than `head` in the
same 256 tokens, `head+tail` 11 points, both beyond the interval. Two slices, which show the first 512 tokens and cost
several times the training time of one window, stand 8 to 9 points above `head` and below both others; whether their
vectors are joined by mean, max or attention makes no difference that could be shown. Whichever you choose, look at your
own texts: it is the place of what matters that decides, not the kind of window.

**What did not.** A decay of 0.95 costs about a point at three epochs on all three sets, and on top of ten epochs gains
nothing on TREC with either encoder: lower layers learn more slowly, and here there was too little learning, not too
much. Gradual unfreezing, one more block an epoch, needs more epochs than these: it loses 11 points on rt-polarity and
18 on banking77, beside `longer` 24 on TREC with six blocks, and leaves the twelve of e5-small at chance. R-Drop brings
2.5 points on TREC at three epochs, for twice the time, which is better spent on more epochs. The topmost block drawn
anew costs 28 points on banking77, where three epochs do not teach it again, and shows nothing on the other two. The
slanted triangle, label smoothing and, on TREC, the mean of the last three epochs show nothing that may be claimed. Nor
do rows in random order: batches by length cost no accuracy that could be shown on any of the three sets. None of this
says that these pieces do not pay with more steps, more data or larger encoders.

**The defaults** of `warmstart fit` follow: small data is seen as often as makes 300 steps (`training.min_steps`), with
the stock head, a rate of 5e-5, a straight line down and no decay. They are better than plain on all three sets, by 9,
63 and 14 points. If you need not open the model in plain `transformers`, try `head.pooling: mean` next, then a rate of
1e-4.
"""
"""What the tables say, in plain words; written by hand after looking at them."""


def recipe_of(name: str, model: str) -> dict[str, Any]:
    """The plain recipe of a set."""
    from warmstart.experiments.variants import PLAIN

    return {"model": weights(model), **data_of(name), **PLAIN, **SETS[name].recipe}


def accepted(recipe: dict[str, Any], variants: dict[str, Variant]) -> dict[str, dict[str, Any]]:
    """The variants that the recipe takes; the others are named."""
    from warmstart.errors import RecipeError
    from warmstart.experiments.repeat import make_variants

    found = {}
    for name, variant in variants.items():
        try:
            make_variants(recipe, {name: variant.changes})
            found[name] = variant.changes
        except RecipeError as error:
            print(f"skipped: {error}", flush=True)
    return found


def train(args: argparse.Namespace) -> None:
    """Carry out what is missing of what was asked for."""
    from warmstart.experiments.repeat import repeat

    for name in chosen(args.sets, SETS):
        recipe = recipe_of(name, args.model)
        wanted = [one for one in chosen(args.variants, SHORT | LONG) if one in VARIANTS[name]]
        variants = accepted(recipe, {one: VARIANTS[name][one] for one in wanted})
        seeds = range(min(args.n, SETS[name].most_seeds))
        if variants:
            where = f"{name}-{args.model}"
            repeat(recipe, variants, seeds, CACHE / where, Lines(where), keep="numbers")


def tables() -> dict[str, list[Any]]:
    """The rows of every set and model that has any, of the variants that are in the tables above."""
    from warmstart.experiments.repeat import read_results

    places = [(name, f"{name}-{model}") for model in MODELS for name in SETS]
    found = {where: read_results(CACHE / where, list(VARIANTS[name])) for name, where in places}
    return {where: rows for where, rows in found.items() if rows}


def _table(where: str, rows: list[Any]) -> str:
    """One set's variants."""
    name, _, model = where.partition("-")
    reference = {one: variant.reference for one, variant in VARIANTS[name].items() if one != variant.reference}
    return table(f"{SETS[name].about}; {model}", rows, reference)


def page(found: dict[str, list[Any]]) -> str:
    """The page's body."""
    intro = (
        "Each piece of the craft alone beside plain fine-tuning (rate 5e-5, 3 epochs, batch 32, linear schedule with a "
        "tenth of warm-up), and some on top of ten epochs (`longer`). The recipe's keys of each variant are in "
        "`benchmarks/craft.py`."
    )
    parts = [intro, ABOUT, READING.strip(), *(_table(where, rows) for where, rows in found.items())]
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    """Train what is missing, then report on all that is there."""
    parser = asking(__doc__, 5, SETS, "craft")
    parser.add_argument("--model", default="minilm", choices=MODELS, help="the encoder (default minilm)")
    args = parser.parse_args()
    if not args.no_train:
        with errors_told():
            train(args)
    found = tables()
    if args.write:
        write_page("craft", "What each piece of the craft is worth", "make results-craft", page(found))
    finish(
        {
            "runs": {where: len(rows) for where, rows in found.items()},
            "accuracy": {where: means(rows) for where, rows in found.items()},
        }
    )


if __name__ == "__main__":
    main()
