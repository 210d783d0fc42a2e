"""The config of one of our own models, from any source: only known keys, with values that they can have."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from transformers.activations import ACT2FN

from warmstart.errors import ModelError, nearest
from warmstart.models.architectures import POOLED
from warmstart.models.pooling import COMPARE, FINAL, HEAD_TYPES, LAYERS, MARKED_POOLINGS, SLICE_POOLINGS
from warmstart.runtime import plugins
from warmstart.storage.json_files import JsonObject

MAX_LABELS = 100_000
MAX_TOKENS = 1 << 24
MAX_SLICES = 1 << 16
MAX_LSTM_LAYERS = 64
MAX_STATE_SIZE = 1 << 16
_WORD = re.compile(r"[\w.+-]{1,80}", re.ASCII)


def _word(value: object) -> bool:
    return value is None or (isinstance(value, str) and bool(_WORD.fullmatch(value)))


def _token(value: object) -> bool:
    return value is None or (type(value) is int and -1 <= value <= MAX_TOKENS)


def _is_even(value: object) -> bool:
    return type(value) is int and 2 <= value <= MAX_STATE_SIZE and value % 2 == 0


def _names(value: object) -> bool:
    return value is None or (isinstance(value, list) and len(value) <= 8 and all(map(_word, value)))


def _labels(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= MAX_LABELS
        and all(type(name) in {str, int} for name in value.values())
    )


_ROW_POOLINGS = (*SLICE_POOLINGS, COMPARE)


def _pooling(value: object) -> bool:
    return value in (FINAL, *MARKED_POOLINGS) or value in plugins.names("poolings")


KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "model_type": (_word, f"{POOLED}"),
    "architectures": (_names, "a list of names"),
    "encoder": (lambda value: isinstance(value, dict), "the config of the encoder"),
    "layers": (lambda value: isinstance(value, str) and bool(LAYERS.fullmatch(value)), "layers, as last or concat-4"),
    "pooling": (_pooling, f"one of {', '.join((*plugins.built_in_names('poolings'), FINAL, *MARKED_POOLINGS))}"),
    "slice_pooling": (lambda value: value in _ROW_POOLINGS, f"one of {', '.join(_ROW_POOLINGS)}"),
    "slice_chunk_size": (lambda value: type(value) is int and 1 <= value <= MAX_SLICES, f"1 to {MAX_SLICES:,}"),
    "dropout": (lambda value: isinstance(value, int | float) and 0 <= value < 1, "0 or more, less than 1"),
    "head_type": (lambda value: value in HEAD_TYPES, f"one of {', '.join(HEAD_TYPES)}"),
    "pooler_activation": (
        lambda value: isinstance(value, str) and value in ACT2FN,
        "the name of an activation, as tanh or gelu",
    ),
    "pooler_dropout": (lambda value: isinstance(value, bool), "true or false"),
    "bilstm_layers": (lambda value: type(value) is int and 1 <= value <= MAX_LSTM_LAYERS, f"1 to {MAX_LSTM_LAYERS}"),
    "bilstm_size": (lambda value: value is None or _is_even(value), "nothing, or an even number from 2 on"),
    "id2label": (_labels, f"names of at most {MAX_LABELS:,} labels"),
    "label2id": (_labels, f"numbers of at most {MAX_LABELS:,} labels"),
    # A Trainer sets these on any config.
    "use_cache": (lambda value: isinstance(value, bool), "true or false"),
    "pad_token_id": (_token, "the number of a token"),
    "bos_token_id": (_token, "the number of a token"),
    "eos_token_id": (_token, "the number of a token"),
    "problem_type": (_word, "a word"),
    "dtype": (_word, "a word"),
    "transformers_version": (_word, "a version"),
}
"""What each key may hold: a test, and its description."""


def check_pooled(values: JsonObject, path: Path) -> JsonObject:
    """Refuse a config of our own with an unknown key or an impossible value; returns that of its encoder."""
    for key, value in values.items():
        if key not in KEYS:
            raise ModelError(f"{path}: {key!r}: a {POOLED} model has no such setting; {nearest(key, KEYS)}")
        fits, expected = KEYS[key]
        if not fits(value):
            raise ModelError(f"{path}: {key}: found {str(value)[:80]!r}, expected {expected}")
    if "encoder" not in values:
        raise ModelError(f"{path}: encoder: found none, expected the config of the encoder")
    encoder: JsonObject = values["encoder"]
    return encoder
