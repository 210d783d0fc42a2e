"""The number that an explanation is of: how strongly a model's outputs speak for its answer.

Each is a log odds: the logits that speak for the answer against all others. Unlike a probability, it does not flatten
out where the model is sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from warmstart.errors import DataError
from warmstart.text.alignment import char_span_to_tokens


def log_odds(logits: torch.Tensor, chosen: Sequence[int]) -> torch.Tensor:
    """The log odds of some of the classes in the last dimension; that of all of them is 0."""
    own = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    own[list(chosen)] = True
    if bool(own.all()):
        return logits.sum() * 0
    return logits[..., own].logsumexp(-1) - logits[..., ~own].logsumexp(-1)


def entity_output(
    logits: torch.Tensor, features: Sequence[Mapping[str, Any]], entity: Mapping[str, Any], tags: Sequence[int]
) -> torch.Tensor:
    """The mean over an entity's units of the log odds that their tag is of its type.

    Args:
        logits: Of shape (features, tokens, tags).
        tags: The ids of the tags of its type.
    """
    units = features[0]["units"]
    inside = [number for number, (start, _) in enumerate(units) if entity["start"] <= start < entity["end"]]
    places = [
        [token + _shift(feature, logits.shape[1]) for token in tokens]
        for feature in features
        for tokens in feature["unit_tokens"]
    ]
    owner = [number for number, feature in enumerate(features) for _ in feature["unit_tokens"]]
    odds = [log_odds(logits[owner[unit], places[unit]].mean(0), tags) for unit in inside]
    return torch.stack(odds).mean()


def span_output(
    starts: torch.Tensor, ends: torch.Tensor, features: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]
) -> torch.Tensor:
    """The log odds of an answer's first token, plus those of its last, in the first window that shows both.

    Args:
        starts: Of shape (features, tokens), as `ends`.
    """
    for number, feature in enumerate(features):
        size, shift = len(feature["input_ids"]), _shift(feature, starts.shape[1])
        first = last = feature["no_answer_position"]
        if answer["start"] is not None:
            tokens = char_span_to_tokens(feature["offsets"], answer["start"], answer["end"])
            low, high = feature["context_range"]
            if tokens is None or tokens[0] < low or tokens[1] > high:
                continue
            first, last = (feature["context_start"] + token - low for token in (tokens[0], tokens[1] - 1))
        own = slice(shift, shift + size)
        return log_odds(starts[number, own], [first]) + log_odds(ends[number, own], [last])
    raise DataError(f"no window shows the whole answer {answer['answer']!r}, so there is nothing to explain")


def _shift(feature: Mapping[str, Any], width: int) -> int:
    return width - len(feature["input_ids"]) if feature["padded_left"] else 0
