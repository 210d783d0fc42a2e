"""The trainings of the proof that nothing changed: each a recipe in old words, by the case's name."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]

COMMON: Values = {
    "model": "bert",
    "learn.rate": 3e-3,
    "learn.epochs": 2,
    "learn.batch": 8,
    "learn.precision": "fp32",
    "trainer.logging_steps": 1,
}
"""What every recipe says, unless it says something else; files are names in the folder of inputs."""
REVIEWS: Values = {"data.train": "train.csv", "data.test": "test.csv"}
WITH_DEV: Values = {**REVIEWS, "data.dev": "dev.csv"}
MEASURED: Values = {**REVIEWS, "data.dev": "dev-more.csv", "data.test": "test-more.csv", "learn.epochs": 8}
"""Dev and test rows enough to say something of probabilities."""
SAVED: Values = {"checkpoints.steps": 3, "checkpoints.after": "keep"}
LONGER: Values = {"learn.epochs": 16}
TAGS: Values = {"data.train": "tags.jsonl", "data.test": "tags-test.jsonl", **LONGER}
SPANS: Values = {"task": {"name": "span"}, "data.train": "spans.jsonl", "data.test": "spans-test.jsonl", **LONGER}
JUDGED: Values = {"data.train": "judged.jsonl", "data.test": "judged-test.jsonl"}
TEXTS: Values = {"data.train": "texts.txt", "data.split.test": 0.2, "window.tokens": 32}
RELATIONS: Values = {"data.train": "relations.jsonl", "data.test": "relations-test.jsonl"}

TASKS: dict[str, Values] = {
    "classify": {**WITH_DEV, **SAVED, "learn.epochs": 8},
    "classify pairs": {
        "data.train": "pairs.csv",
        "data.test": "pairs-test.csv",
        "data.columns": {"text": "text", "pair": "other"},
    },
    "classify several labels": {
        "task": {"name": "classify", "labels": "many", "threshold": 0.4},
        "data.train": "many.csv",
        "data.test": "many-test.csv",
        "data.label_separator": "|",
    },
    "score": {"task": "score", "data.train": "scores.csv", "data.test": "scores-test.csv"},
    "tag": {"task": "tag", **TAGS},
    "tag with CRF": {"task": {"name": "tag", "crf": True, "scheme": "IOBES"}, **TAGS, **SAVED},
    "tag characters": {"task": {"name": "tag", "units": "character", "score_pieces": "all"}, **TAGS},
    "span": SPANS,
    "span with dev": {**SPANS, "task.best": 3, "data.dev": "spans.jsonl", "window.tokens": 16, "window.overlap": 3},
    "rank bi": {"task": {"name": "rank", "rows": "pairs"}, "data.train": "pairs.jsonl", "data.test": "pairs.jsonl"},
    "rank bi with hard negatives": {
        **JUDGED,
        "task": {"name": "rank", "mine": 1, "at_once": 4, "pool": "cls", "query_prompt": "who : "},
    },
    "rank bi by triplets": {
        "task": {"name": "rank", "rows": "triplets", "loss": "triplet", "margin": 0.3},
        "data.train": "triplets.jsonl",
        "data.split.test": 0.25,
    },
    "rank cross": {**JUDGED, "task": {"name": "rank", "kind": "cross", "loss": "each"}},
    "rank cross by margin": {**JUDGED, "task": {"name": "rank", "kind": "cross", "loss": "margin", "negatives": 2}},
    "choose": {"task": "choose", "data.train": "riddles.jsonl", "data.test": "riddles-test.jsonl"},
    "relate": {"task": "relate", **RELATIONS},
    "relate with punctuation marks": {"task": {"name": "relate", "show": "signs", "read": "spans"}, **RELATIONS},
    "relate with a stock head": {"task": {"name": "relate", "show": "mask", "read": "cls"}, **RELATIONS},
    "masked mlm": {"task": {"name": "masked", "mask": 0.3}, **TEXTS, **SAVED},
    "masked mlm, spans": {"task": {"name": "masked", "unit": "span", "mask": 0.1, "mask_to": 0.4}, **TEXTS},
    "masked mlm+nsp": {"task": {"name": "masked", "objective": "mlm+nsp", "mask": [0.1, 0.4]}, **TEXTS},
    "masked mlm+sop": {"task": {"name": "masked", "objective": "mlm+sop", "unit": "word"}, **TEXTS},
    "masked clm": {"task": {"name": "masked", "objective": "clm"}, **TEXTS, "model": "gpt2"},
}
"""Every task."""

SLICES: Values = {"window.keep": "slices", "window.tokens": 16}
CRAFT: dict[str, Values] = {
    "layer-wise learning rates": {"layers.decay": 0.8},
    "head learning rate": {"layers.head_rate": 1e-2},
    "gradual unfreezing": {"layers.unfreeze": "gradual", "layers.unfreeze_every": 2},
    "gradual unfreezing by epoch": {"layers.unfreeze": "gradual", "learn.epochs": 4},
    "chain-thaw": {"layers.unfreeze": "chain-thaw", "layers.unfreeze_every": 1, "layers.freeze": 1, "learn.epochs": 3},
    "head-first unfreezing": {"layers.unfreeze": "head-first"},
    "frozen lowest layers": {"layers.freeze": 3},
    "slanted triangular": {"learn.schedule": "slanted-triangular", "learn.ratio": 16, "learn.warmup": 0.25},
    "cosine": {"learn.schedule": "cosine", "learn.warmup": 0.0},
    "constant": {"learn.schedule": "constant"},
    "reverse annealing": {"learn.schedule": "reverse-annealing"},
    "warm-up, stable, decay": {"learn.schedule": "stable-decay"},
    "no Adam bias correction": {"learn.bias_correction": False, "learn.clip": 0.5, "learn.weight_decay": 0.1},
    "re-initialized top layers": {"layers.renew": 2, "layers.head_start": "zero"},
    "re-initialized norms": {"layers.norms": "reset"},
    "head seed": {"head_seed": 7, "seed": 3},
    "concat-4": {"layers.pool": "concat-4"},
    "scalar mix of layers": {"layers.pool": "mix", "layers.tokens": "cls"},
    "one hidden layer": {"layers.pool": 2, "layers.tokens": "max"},
    "mean pooling": {"layers.tokens": "mean"},
    "attention pooling": {"layers.tokens": "attention"},
    "last+max+mean pooling": {"layers.tokens": "last+max+mean"},
    "mlp head": {"layers.head": "mlp", "layers.tokens": "mean"},
    "bilstm head": {"layers.head": "bilstm", "layers.pool": "mean-2"},
    "bilstm head of tag": {"layers.head": "bilstm", "task": "tag", **TAGS, "learn.epochs": 4},
    "label smoothing": {"learn.smoothing": 0.1},
    "R-Drop": {"learn.rdrop": 1.0},
    "weight averaging": {"learn.average": 2, "learn.epochs": 3, **SAVED},
    "early stopping": {**WITH_DEV, "learn.stop_early": 1, "learn.epochs": 6, **SAVED},
    "balanced class weights": {"data.train": "uneven.csv", "task": {"name": "classify", "weights": "balanced"}},
    "class weights by label": {"task": {"name": "classify", "weights": {"pos": 2.0, "neg": 0.5}}},
    "token-budget batches": {"learn.batch_tokens": 120, **SAVED},
    "random batches": {"learn.order": "random"},
    "min steps": {"learn.epochs": None, "learn.least_steps": 9},
    "max steps": {"learn.max_steps": 3},
    "head+tail": {"window.keep": "head+tail", "window.tokens": 14, "window.head": 5},
    "head+tail of pairs": {**TASKS["classify pairs"], "window.keep": "head+tail", "window.tokens": 18},
    "tail": {"window.keep": "tail", "window.tokens": 14},
    "slices, mean pooling": {**SLICES, "window.overlap": 4, "window.most": 3},
    "slices, max pooling": {**SLICES, "window.pool": "max"},
    "slices, attention pooling": {**SLICES, "window.pool": "attention"},
    "LoRA": {"layers.lora": {"rank": 2, "alpha": 8.0, "dropout": 0.1}, **SAVED},
    "frozen encoder": {"layers.freeze": "encoder"},
    "frozen encoder, bilstm head": {"layers.freeze": "encoder", "layers.head": "bilstm", "layers.pool": "mean-2"},
    "bf16": {"learn.precision": "bf16"},
    "gradient accumulation": {"trainer.gradient_accumulation_steps": 2},
    "held-out split": {"data.test": None, "data.split": {"test": 0.2, "dev": 0.2, "seed": 5}},
    "dropped rows": {
        "data.train": "faulty.tsv",
        "data.test": "test.tsv",
        "data.header": False,
        "data.columns": {"text": 2, "label": 1},
        "data.drop": ["unlabelled", "shared"],
    },
    "forgetting": {
        **WITH_DEV,
        "forgetting": {"text": "general.txt", "rows": 8, "tokens": 24, "every": 4},
    },
    **{
        f"{name}, layer-wise learning rates": {"model": name}
        for name in ("roberta", "deberta-v2", "modernbert", "gpt2")
    },
}
"""Every piece of the craft, on reviews unless it says something else."""
for _name in CRAFT:
    if "model" in CRAFT[_name]:
        CRAFT[_name] |= {"layers.decay": 0.9, "layers.unfreeze": "gradual", "layers.unfreeze_every": 2}

STAGED: dict[str, Values] = {
    "three stages": {
        **REVIEWS,
        "before": [
            {"pretrain": {"on": {"in-domain": ["texts.txt", "within-task"]}, "tokens": 32, "steps": 4, "seed": 2}},
            {
                "multitask": {
                    "with": ["tags.yaml", "scores.yaml"],
                    "weights": {"own": 2.0},
                    "learn": {"rate": 1e-3, "max_steps": 6, "batch": 8, "precision": "fp32"},
                    "layers": {"decay": 0.9, "head_rate": 5e-3},
                }
            },
        ],
    },
    "multi-task": {
        **REVIEWS,
        "before": [
            {
                "multitask": {
                    "with": ["tags.yaml", "scores.yaml"],
                    "own": False,
                    "sampling": "annealed",
                    "weights": "uncertainty",
                    "learn": {"rate": 2e-3, "max_steps": 6, "batch": 4, "precision": "fp32"},
                }
            }
        ],
        "forgetting": {"text": "general.txt", "rows": 8, "tokens": 24},
    },
    "from scratch": {
        **REVIEWS,
        "model": None,
        "scratch": {"layers": 2, "width": 16, "heads": 2, "vocabulary": 300, "tokens": 64},
        "before": [
            {
                "pretrain": {
                    "on": {"cross-domain": ["general.txt"]},
                    "objective": "mlm+nsp",
                    "task": {"mask": 0.2},
                    "tokens": 24,
                    "learn": {"rate": 1e-3, "max_steps": 4, "batch": 8, "precision": "fp32"},
                }
            }
        ],
    },
}
"""Trainings with stages before them."""
TAKING_PART: dict[str, Values] = {
    "tags": {"model": "bert", "task": "tag", "data.train": "tags.jsonl"},
    "scores": {"model": "bert", "task": "score", "data.train": "scores.csv", "layers.tokens": "mean"},
}
"""Recipes of the tasks that are learned together, by the name of their file."""
REPEATED: dict[str, Values] = {
    "seeds, a baseline and an ablation": {
        **WITH_DEV,
        "seeds": 2,
        "baseline": "plain",
        "ablate": ["layers.decay"],
        "layers.decay": 0.95,
        "window.tokens": 24,
        "learn.epochs": 8,
    },
    "seeds, averaged weights": {**WITH_DEV, "seeds": 2, "keep": "average", "learn.epochs": 8, "seed": 4},
    "seeds, an ensemble": {**REVIEWS, "seeds": 2, "keep": "ensemble", "learn.epochs": 8},
}
"""Recipes that ask for several trainings."""


def fits() -> dict[str, Values]:
    """Every training that is one call of `fit`: its recipe by its name."""
    found = {**TASKS, **{name: {**REVIEWS, **values} for name, values in CRAFT.items()}, **STAGED, **REPEATED}
    return {name: {**COMMON, **values} for name, values in found.items()}
