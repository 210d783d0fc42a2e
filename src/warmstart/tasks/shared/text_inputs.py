"""One text or a pair of them, as token ids in a window and as a padded batch: shared by the tasks that read texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from warmstart.errors import ModelError
from warmstart.tasks.base import Columns, FlatFeature, NestedFeature, TextFeature
from warmstart.tasks.shared.prompts import prompted
from warmstart.tasks.shared.text_columns import PAIR as PAIR
from warmstart.tasks.shared.text_columns import TEXT as TEXT
from warmstart.text.windows import Frame, Window, apply_window

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode_texts(
    rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window, pair: bool, separate: bool = False
) -> list[TextFeature]:
    """One feature a row, as `apply_window` gives it: token ids, and how many tokens there are and are cut.

    Args:
        separate: Each text of a pair is an input of its own.
    """
    rows = prompted(rows, window.prompt, separate)
    if separate:
        return _encode_separately(rows, tokenizer, window)
    with no_panic():
        frame = Frame.of(tokenizer, pair)
        first = token_ids(tokenizer, rows["text"])
        second: Sequence[list[int] | None] = token_ids(tokenizer, rows["pair"]) if pair else [None] * len(first)
    return [cast(TextFeature, apply_window(window, frame, a, b)) for a, b in zip(first, second, strict=True)]


def _encode_separately(rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[TextFeature]:
    """One feature a pair: two inputs, the first text and the second."""
    frame = Frame.of(tokenizer, False)
    sides = [
        [apply_window(window, frame, ids) for ids in token_ids(tokenizer, rows[name])] for name in ("text", "pair")
    ]
    features: list[TextFeature] = []
    for both in zip(*sides, strict=True):
        tokens, cut = (sum(one.pop(name) for one in both) for name in ("tokens", "cut"))
        features.append(cast(TextFeature, nested(both, tokens, cut)))
    return features


def flat(ids: Mapping[str, list[int]], tokens: int, cut: int) -> FlatFeature:
    """A feature of one sequence: what `Frame.put_around` gives, and how many tokens there are and are cut."""
    return cast(FlatFeature, {**ids, "tokens": tokens, "cut": cut})


def nested(sequences: Sequence[Mapping[str, list[int]]], tokens: int, cut: int) -> NestedFeature:
    """A feature of several sequences."""
    columns = {name: [sequence[name] for sequence in sequences] for name in sequences[0]}
    return cast(NestedFeature, {**columns, "tokens": tokens, "cut": cut})


def pad(
    features: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, separate: bool = False
) -> dict[str, torch.Tensor]:
    """Token ids, token types and attention mask, padded to the longest of the batch.

    Of a text in slices each slice is a row, one after the other, and `slices` holds how many each text has. Features
    of a frozen encoder that were computed before replace the ids: `vectors`, or the tokens' `states` with
    their mask.

    Args:
        separate: What looks like slices are texts of their own, so that each has a vector.
    """
    if "vectors" in features[0]:
        stored = [(torch.tensor(one["vectors"]), len(one["input_ids"]) if separate else 1) for one in features]
        return {"vectors": torch.cat([vectors.reshape(count, -1) for vectors, count in stored])}
    if "states" in features[0]:
        return _pad_states(features, tokenizer.padding_side)
    names = [name for name in ("input_ids", "token_type_ids") if name in features[0]]
    plain = {name: [feature[name] for feature in features] for name in names}
    counts = [count_slices(feature) for feature in features]
    if counts[0] is not None:
        plain = {name: [row for rows in column for row in rows] for name, column in plain.items()}
    # Made tensors here: the tokenizer looks at every number first, which costs as much as a block of a small encoder.
    # By NumPy, which takes a fifth of the time that torch.tensor takes for lists.
    padded = {name: np.array(column, dtype=np.int64) for name, column in tokenizer.pad(plain).items()}
    batch = {name: torch.from_numpy(column) for name, column in padded.items()}
    return batch if counts[0] is None else {**batch, "slices": torch.tensor(counts)}


def pad_labels(labels: Sequence[Sequence[int]], tokenizer: PreTrainedTokenizerBase, fill: int) -> torch.Tensor:
    """One label a token, padded to the longest on the side that the tokenizer pads."""
    width = max(map(len, labels))
    left = tokenizer.padding_side == "left"
    rows = [[fill] * (width - len(row)) + list(row) if left else [*row, *[fill] * (width - len(row))] for row in labels]
    return torch.tensor(rows)


def _pad_states(features: Sequence[Mapping[str, Any]], side: str) -> dict[str, torch.Tensor]:
    """The stored states of tokens, a row for each text, padded on the side that the tokenizer pads."""
    states: list[torch.Tensor] = []
    for feature in features:
        ids = feature["input_ids"]
        lengths = [len(ids)] if count_slices(feature) is None else list(map(len, ids))
        states += torch.split(torch.tensor(feature["states"]).reshape(sum(lengths), -1), lengths)
    masks = [torch.ones(len(rows), dtype=torch.long) for rows in states]
    padded = (torch.nn.utils.rnn.pad_sequence(rows, True, padding_side=side) for rows in (states, masks))
    return dict(zip(("states", "attention_mask"), padded, strict=True))


def count_slices(feature: Mapping[str, Any]) -> int | None:
    """How many slices a feature holds, or None where its text was not to be sliced."""
    ids = feature["input_ids"]
    return len(ids) if ids and isinstance(ids[0], list) else None


@contextmanager
def no_panic() -> Iterator[None]:
    """Turn a tokenizer's panic into an error: it is no Exception, has no name to import, and passes every handler."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"the model's tokenizer breaks on a text: {error}; its tokenizer.json is damaged") from None


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, whole and without special ones."""
    # verbose=False: a text longer than the encoder takes is cut and counted here, which is no news to warn of.
    with no_panic():
        encoding = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    ids: list[list[int]] = encoding["input_ids"]
    return ids
