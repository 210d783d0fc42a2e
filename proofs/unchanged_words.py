"""Old names and new ones: the tables by which the proof that nothing changed translates.

The proof writes every recipe, option and argument once, in old words. Where it compares outputs, a name must be the
old one or the new one of these tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

COMMAND = {"old": "warmstart.cli.main", "new": "warmstart.cli.main"}
"""The module of the command line."""

LEARN = {
    "learn": "training",
    "learn.rate": "training.learning_rate",
    "learn.schedule": "training.lr_schedule",
    "learn.ratio": "training.lr_ratio",
    "learn.least_steps": "training.min_steps",
    "learn.batch": "training.batch_size",
    "learn.order": "training.batching",
    "learn.clip": "training.max_grad_norm",
    "learn.smoothing": "training.label_smoothing",
    "learn.rdrop": "training.r_drop",
    "learn.average": "training.average_last_epochs",
    "learn.stop_early": "training.early_stopping_patience",
    "learn.bias_correction": "training.adam_bias_correction",
    "layers.decay": "layers.lr_decay",
    "layers.renew": "layers.reinit_top",
    "layers.norms": "layers.reinit_norms",
    "layers.pool": "head.layers",
    "layers.tokens": "head.pooling",
    "layers.head": "head.type",
    "layers.head_rate": "head.learning_rate",
    "layers.head_start": "head.init",
}
"""Recipe keys of training, in a recipe and in each of its stages."""
RECIPE = {
    **LEARN,
    "head": "head.reuse",
    "scratch": "from_scratch",
    "scratch.width": "from_scratch.hidden_size",
    "scratch.heads": "from_scratch.num_heads",
    "scratch.layers": "from_scratch.num_layers",
    "scratch.vocabulary": "from_scratch.vocab_size",
    "scratch.tokens": "from_scratch.max_tokens",
    "window.keep": "window.method",
    "window.tokens": "window.max_tokens",
    "window.head": "window.head_tokens",
    "window.most": "window.max_slices",
    "window.pool": "window.slice_pooling",
    "before": "stages",
    "reuse": "reuse_stages",
    "head_seed": "init_seed",
    "forgetting.start": "forgetting.reference",
    "forgetting.tokens": "forgetting.max_tokens",
    "forgetting.every": "forgetting.every_steps",
    "keep": "select",
    "checkpoints.steps": "checkpoints.every_steps",
    "checkpoints.minutes": "checkpoints.every_minutes",
    "checkpoints.keep": "checkpoints.keep_last",
    "checkpoints.after": "checkpoints.when_finished",
    "task.labels": "task.multi_label",
    "task.weights": "task.class_weight",
    "task.kind": "task.encoder",
    "task.mine": "task.hard_negatives",
    "task.at_once": "task.chunk_size",
    "task.pool": "task.pooling",
    "task.mask": "task.mlm_probability",
    "task.mask_to": "task.mlm_probability_end",
    "task.unit": "task.masking",
    "task.show": "task.entity_marking",
    "task.marker": "task.typed_markers",
    "task.read": "task.entity_pooling",
    "task.other": "task.no_relation_label",
    "task.answer_tokens": "task.max_answer_tokens",
    "task.best": "task.n_best",
    "task.f1": "task.f1_unit",
    "task.units": "task.tokenize_by",
    "task.misplaced": "task.misplaced_answers",
    "task.score_pieces": "task.subtoken_pooling",
}
"""Recipe keys; a key that is missing here follows its parent, or is unchanged."""
STAGES = {
    "pretrain": {**LEARN, "on": "corpus", "tokens": "max_tokens", "task.mask": "task.mlm_probability"},
    "multitask": {**LEARN, "weights": "loss_weights", "own": "include_own"},
}
"""Keys of a stage, by its kind."""
VALUES: dict[tuple[str, Any], Any] = {
    ("head", "keep"): True,
    ("head", "new"): False,
    ("task.labels", "one"): False,
    ("task.labels", "many"): True,
    ("task.loss", "each"): "bce",
    ("task.loss", "in-batch"): "in-batch-negatives",
    ("task.unit", "piece"): "token",
    ("task.unit", "word"): "whole-word",
    ("task.show", "signs"): "punctuation",
    ("task.marker", "plain"): False,
    ("task.marker", "typed"): True,
    ("task.read", "starts"): "start",
    ("task.read", "spans"): "mean",
    ("task.f1", "words"): "word",
    ("task.f1", "characters"): "character",
    ("task.score_pieces", "all"): "mean",
    ("learn.schedule", "stable-decay"): "warmup-stable-decay",
    ("layers.pool", "mix"): "scalar-mix",
    ("layers.norms", "keep"): False,
    ("layers.norms", "reset"): True,
    ("layers.head_start", "drawn"): "random",
}
"""Renamed values, by their old key."""
ITEMS = {"data.drop": {"shared": "leaked"}}
"""Renamed items of lists, by their old key."""
KEY_LISTS = ("ablate",)
"""Lists whose items are recipe keys."""
GONE: dict[str, Any] = {
    "stages.pretrain.head.layers": "last",
    "stages.pretrain.head.pooling": "auto",
    "stages.pretrain.head.type": "auto",
    "stages.pretrain.head.init": "random",
    "stages.pretrain.head.learning_rate": None,
}
"""Keys of a complete recipe that were removed, by the name they would have now, and the value they must have had."""
ADDED: dict[str, Any] = {"stages.multitask.head.reuse": True}
"""Keys of a complete recipe that were added, and the value they must have."""

OPTIONS = {
    "": {"--rate": "--learning-rate", "--batch": "--batch-size", "--tokens": "--max-tokens"},
    "fit": {"--keep": "--select"},
    "predict": {
        "--least-confidence": "--min-confidence",
        "--top": "--top-k",
        "--keep": "--keep-column",
        "--threads": "--cpus-per-worker",
        "--gpus": "--gpus-per-worker",
    },
    "serve": {"--wait-ms": "--batch-wait-ms", "--queue": "--max-queue"},
    "diagnose": {
        "--precision": "--target-precision",
        "--by": "--slice-by",
        "--how": "--cv-model",
        "--most": "--limit",
    },
    "features": {"--tokens": "--pooling", "--window": "--max-tokens", "--keep": "--window", "--store": "--dtype"},
    "plan": {"--steps": "--max-steps"},
    "sweep": {"--prune": "--pruner", "--goal": "--direction", "--budget": "--timeout"},
}
"""Options of each verb; those of all verbs under no name."""
KEYED = ("--set", "--search", "--ablate")
"""Options whose value is, or begins with, a recipe key."""
SHAPE = {
    "layers": "num_layers",
    "width": "hidden_size",
    "inner": "intermediate_size",
    "heads": "num_heads",
    "vocabulary": "vocab_size",
}
"""Names in `plan --shape`."""
ARGUMENTS = {
    "features": {"tokens": "pooling", "window": "max_tokens", "keep": "window", "batch": "batch_size"},
    "TextClassifier": {"rate": "learning_rate", "batch": "batch_size", "tokens": "max_tokens"},
    "TextScorer": {"rate": "learning_rate", "batch": "batch_size", "tokens": "max_tokens"},
}
"""Arguments of each public call."""

NAMES = {
    "matthews": ("mcc",),
    "exact": ("exact_match",),
    "has_answer_exact": ("has_answer_exact_match",),
    "threshold": ("no_answer_threshold",),
    "gradient_norm": ("grad_norm",),
    "agreement": ("cka",),
    "slices_pool": ("slice_pooling",),
    "slices_at_once": ("slice_chunk_size",),
    "operations": ("flops",),
    "gb": ("memory_gb",),
    "learning": ("trainable_parameters",),
    "start": ("startup", "launch_seconds"),
    "testing": ("evaluation",),
    "store": ("dtype",),
    "prune": ("pruner",),
    "goal": ("direction",),
    "highest": ("maximize",),
    "lowest": ("minimize",),
    "budget": ("timeout",),
    "whole": ("integer",),
    "begun": ("started",),
    "keeping": ("callbacks", "stateful_callbacks"),
    "stop_early": ("early_stopping",),
    "what": ("about", "type"),
    "least": ("min_confidence",),
    "peak": ("peak_tflops",),
    "bandwidth": ("bandwidth_gbs",),
    "price": ("price_per_hour",),
    "share": ("utilization",),
    "base": ("overhead_gb",),
    "fused": ("fused_attention",),
    "head": ("head_type",),
    "corrected": ("p_corrected",),
    "shown": ("significant",),
    "d": ("cohens_d",),
    "kept": ("selected",),
    "asked": ("recipe",),
    "done": ("complete",),
    "under way": ("running",),
    "found": ("count",),
    "looked_at": ("checked",),
    "given": ("prediction", "predicted"),
    "answer": ("truth", "label"),
}
"""Names in outputs, beside those of recipes: metrics, columns, keys of JSON files, parts of tensor names."""
FILES: dict[str, str] = {r"variants/asked/": "variants/recipe/"}
"""Files that moved: a pattern of the old path, and the new one."""


def rename(key: str) -> str:
    """A recipe key in new words."""
    parts = key.split(".")
    if parts[0] == "recipe" and len(parts) > 1:  # as in the identity of a training
        return f"recipe.{rename('.'.join(parts[1:]))}"
    if parts[0] == "before" and len(parts) > 1:
        place = next((index for index, part in enumerate(parts) if part in STAGES), len(parts))
        kind = parts[place : place + 1]
        rest = _renamed(".".join(parts[place + 1 :]), STAGES[kind[0]]) if kind else ""
        return ".".join(part for part in (RECIPE["before"], *parts[1:place], *kind, rest) if part)
    return _renamed(key, RECIPE)


def _renamed(key: str, table: Mapping[str, str]) -> str:
    """A key translated by the longest prefix of it that is in the table."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in table:
            return ".".join((table[prefix], *parts[length:]))
    return key


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested mappings, and lists of them, by dotted key; a number in a key is an index of a list."""
    inner: Any = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        inner = enumerate(value)
    if not inner:
        yield prefix, value
        return
    for name, one in inner:
        yield from flat(one, f"{prefix}.{name}" if prefix else str(name))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flat`."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = deepcopy(value)
    return {name: _listed(value) for name, value in result.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(one) for name, one in value.items()}
    return list(inner.values()) if inner and all(name.isdigit() for name in inner) else inner


def recipe_in(words: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe of dotted or nested old keys in the words of a side."""
    both = dict(flat(nested(values)))
    return nested(both if words == "old" else dict(translated(both)))


def translated(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The dotted keys and values of a recipe in new words."""
    for key, value in values.items():
        parts = [part for part in key.split(".") if not part.isdigit()]
        own = parts[2:] if parts[0] == "before" else parts  # in a stage as in a recipe
        yield rename(key), _value(".".join(own), value)


def _value(key: str, value: Any) -> Any:
    if isinstance(value, list):
        names = ITEMS.get(key, {})
        return [rename(one) if key in KEY_LISTS else names.get(one, one) for one in value]
    return VALUES.get((key, value), value) if isinstance(value, str) else value


def options_in(words: str, verb: str, options: list[str]) -> list[str]:
    """The arguments of a command in the words of a side."""
    if words == "old":
        return options
    names = {**OPTIONS[""], **OPTIONS.get(verb, {})}
    result: list[str] = []
    for word in options:
        before = options[len(result) - 1] if result else ""
        if before in KEYED:
            key, equals, value = word.partition("=")
            result.append(f"{rename(key)}{equals}{VALUES.get((key, value), value)}")
        elif before == "--shape":
            sizes = (one.partition("=") for one in word.split(","))
            result.append(",".join(f"{SHAPE.get(name, name)}={value}" for name, _, value in sizes))
        else:
            result.append(names.get(word, word))
    return result


def arguments_in(words: str, call: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a public call in the words of a side."""
    if words == "old":
        return dict(values)
    names = ARGUMENTS.get(call, {})
    result = {names.get(name, name): value for name, value in values.items()}
    if "options" in result:
        result["options"] = dict(translated(result["options"]))
    return result


def _last(key: str) -> str:
    return key.rpartition(".")[2]


@cache
def synonyms() -> dict[str, set[str]]:
    """The new names that each old name may have in outputs."""
    result: dict[str, set[str]] = {name: set(others) for name, others in NAMES.items()}
    for table in (RECIPE, *STAGES.values(), *ARGUMENTS.values()):
        for old, new in table.items():
            if _last(old) != _last(new):
                result.setdefault(_last(old), set()).add(_last(new))
    return result


def same_words(old: Any, new: Any) -> bool:
    """Whether two values are equal, or the second is the first in new words."""
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return True
    if not isinstance(old, str):
        return False
    values = [value for (_, word), value in VALUES.items() if word == old]
    values += [names[old] for names in ITEMS.values() if old in names]
    if any(new == one and isinstance(new, bool) == isinstance(one, bool) for one in values):
        return True
    return isinstance(new, str) and (new in NAMES.get(old, ()) or new == translate_keys(old))


def translate_keys(text: str) -> str:
    """A text with its recipe keys in new words, as in the name of a variant: `without learn.smoothing`."""
    return re.sub(r"\b[a-z_]+(?:\.[a-z_]+)+\b", lambda match: rename(match[0]), text)
