"""The config of an AWD-LSTM, from any source: its own keys have values that they can have.

Keys that it does not know, it does not read; what any config must not hold is checked for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.models.recurrent.config import DIRECTIONS
from warmstart.storage.json_files import JsonObject

MAX_SIZE = 1 << 16
MAX_WORDS = 1 << 22
MAX_LAYERS = 64
MAX_TOKENS = 1 << 20

Check = tuple[Callable[[object], bool], str]
"""What a key may hold: a test, and its description."""


def _whole(most: int) -> Check:
    return (lambda value: type(value) is int and 1 <= value <= most), f"1 to {most:,}"


def _number(most: float) -> Check:
    return (
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most,
        f"a number from 0 to {most:g}",
    )


_DROPOUTS = ("embedding", "input", "weight", "hidden", "output", "classifier", "classifier_hidden")

KEYS: dict[str, Check] = {
    "vocab_size": _whole(MAX_WORDS),
    **{name: _whole(MAX_SIZE) for name in ("embedding_size", "hidden_size", "classifier_hidden_size")},
    "num_hidden_layers": _whole(MAX_LAYERS),
    "direction": (lambda value: value in DIRECTIONS, " or ".join(DIRECTIONS)),
    **{f"{name}_dropout": _number(1) for name in _DROPOUTS},
    "dropout_multiplier": _number(10),
    **{f"{name}_regularization": _number(1000) for name in ("activation", "temporal")},
    "bptt": _whole(MAX_TOKENS),
    "max_gradient_tokens": _whole(MAX_TOKENS),
    "tie_word_embeddings": (lambda value: isinstance(value, bool), "true or false"),
}


def check_recurrent(values: JsonObject, path: Path) -> None:
    """Refuse the config of an AWD-LSTM with an impossible value."""
    for key, (fits, expected) in KEYS.items():
        if key in values and not fits(values[key]):
            raise ModelError(f"{path}: {key}: found {str(values[key])[:80]!r}, expected {expected}")
