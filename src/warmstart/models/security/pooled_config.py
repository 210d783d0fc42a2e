"""The config of our own pooled model from anywhere: each key is one it has, and holds what it can hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warmstart.errors import ModelError, nearest
from warmstart.models.architectures import POOLED
from warmstart.models.pooling import HEADS, LAYERS, MARKED, SLICES, TOKENS

MOST_LABELS = 100_000
MOST_TOKENS = 1 << 24
MOST_SLICES = 1 << 16
_WORD = re.compile(r"[\w.+-]{1,80}", re.ASCII)


def _word(value: Any) -> bool:
    return value is None or (isinstance(value, str) and bool(_WORD.fullmatch(value)))


def _token(value: Any) -> bool:
    return value is None or (type(value) is int and -1 <= value <= MOST_TOKENS)


def _names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and len(value) <= 8 and all(map(_word, value)))


def _labels(value: Any) -> bool:
    return (
        isinstance(value, dict) and len(value) <= MOST_LABELS and all(type(one) in {str, int} for one in value.values())
    )


KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model_type": (_word, f"{POOLED}"),
    "architectures": (_names, "a list of names"),
    "encoder": (lambda value: isinstance(value, dict), "the config of the encoder"),
    "layers": (lambda value: isinstance(value, str) and bool(LAYERS.fullmatch(value)), "layers, as last or concat-4"),
    "tokens": (lambda value: value in (*TOKENS, *MARKED), f"one of {', '.join((*TOKENS, *MARKED))}"),
    "slices_pool": (lambda value: value in SLICES, f"one of {', '.join(SLICES)}"),
    "slices_at_once": (lambda value: type(value) is int and 1 <= value <= MOST_SLICES, f"1 to {MOST_SLICES:,}"),
    "dropout": (lambda value: type(value) in {int, float} and 0 <= value < 1, "0 or more, less than 1"),
    "head": (lambda value: value in HEADS, f"one of {', '.join(HEADS)}"),
    "id2label": (_labels, f"names of at most {MOST_LABELS:,} labels"),
    "label2id": (_labels, f"numbers of at most {MOST_LABELS:,} labels"),
    # A Trainer sets these on any config.
    "use_cache": (lambda value: isinstance(value, bool), "true or false"),
    "pad_token_id": (_token, "the number of a token"),
    "bos_token_id": (_token, "the number of a token"),
    "eos_token_id": (_token, "the number of a token"),
    "problem_type": (_word, "a word"),
    "dtype": (_word, "a word"),
    "transformers_version": (_word, "a version"),
}
"""What each key can hold: a test, and its words."""


def check_pooled(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Refuse a config of our own model with a key or a value that it cannot have; give that of its encoder."""
    for key, value in values.items():
        if key not in KEYS:
            raise ModelError(f"{path}: {key!r}: a {POOLED} model has no such setting; {nearest(key, KEYS)}")
        fits, said = KEYS[key]
        if not fits(value):
            raise ModelError(f"{path}: {key}: found {str(value)[:80]!r}, expected {said}")
    if "encoder" not in values:
        raise ModelError(f"{path}: encoder: found none, expected the config of the encoder")
    encoder: dict[str, Any] = values["encoder"]
    return encoder
