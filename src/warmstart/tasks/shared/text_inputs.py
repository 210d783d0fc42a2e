"""One text or a pair of them, as token ids in a window and as a padded batch: shared by the tasks that read texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from warmstart.data.schema import Column
from warmstart.errors import ModelError
from warmstart.text.windows import Frame, Window, encode

TEXT = Column("text", "text", "the text, or the first of a pair")
PAIR = Column("pair", "text", "the second text, where pairs are learned", required=False)


def encode_texts(rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window, pair: bool) -> list[dict[str, Any]]:
    """One feature a row, as `windows.encode` gives it: ids, segments, and how many tokens there are and are cut."""
    with no_panic():
        frame = Frame.of(tokenizer, pair)
        first = token_ids(tokenizer, rows["text"])
        second: Sequence[list[int] | None] = token_ids(tokenizer, rows["pair"]) if pair else [None] * len(first)
    return [encode(window, frame, a, b) for a, b in zip(first, second, strict=True)]


def pad(features: Sequence[Mapping[str, Any]], tokenizer: Any, apart: bool = False) -> dict[str, torch.Tensor]:
    """Token ids, segments and attention mask, padded to the longest of the batch.

    Sliced texts give a row a slice, those of a text one after the other, and `slices`, how many each text has. Of texts
    whose features were kept, those take the place of the ids: `vectors`, or the tokens' `states` with their mask.

    Args:
        apart: What looks like slices are texts of their own, so that each has a vector.
    """
    if "vectors" in features[0]:
        kept = [(torch.tensor(one["vectors"]), len(one["input_ids"]) if apart else 1) for one in features]
        return {"vectors": torch.cat([vectors.reshape(count, -1) for vectors, count in kept])}
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


def pad_labels(labels: Sequence[Sequence[int]], tokenizer: Any, fill: int) -> torch.Tensor:
    """One label a token, padded to the longest on the side that the tokenizer pads."""
    width = max(map(len, labels))
    left = tokenizer.padding_side == "left"
    rows = [[fill] * (width - len(row)) + list(row) if left else [*row, *[fill] * (width - len(row))] for row in labels]
    return torch.tensor(rows)


def _pad_states(features: Sequence[Mapping[str, Any]], side: str) -> dict[str, torch.Tensor]:
    """The kept states of tokens, a row for each text, padded on the side that the tokenizer pads."""
    states: list[torch.Tensor] = []
    for feature in features:
        ids = feature["input_ids"]
        lengths = [len(ids)] if count_slices(feature) is None else list(map(len, ids))
        states += torch.split(torch.tensor(feature["states"]).reshape(sum(lengths), -1), lengths)
    masks = [torch.ones(len(one), dtype=torch.long) for one in states]
    padded = (torch.nn.utils.rnn.pad_sequence(one, True, padding_side=side) for one in (states, masks))
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


def token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, whole and without special ones."""
    # verbose=False: a text longer than the encoder takes is cut and counted here, which is no news to warn of.
    with no_panic():
        found = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    ids: list[list[int]] = found["input_ids"]
    return ids
