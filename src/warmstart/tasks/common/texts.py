"""One text or a pair of them, as token ids in a window and as a padded batch: shared by the tasks that read texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from warmstart.errors import ModelError
from warmstart.schema import Column
from warmstart.windows import Frame, Window, keep, room

TEXT = Column("text", "text", "the text, or the first of a pair")
PAIR = Column("pair", "text", "the second text, where pairs are learned", required=False)


def encode_texts(rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window, pair: bool) -> list[dict[str, Any]]:
    """One feature a row: `input_ids`, `token_type_ids` where the encoder has them, and `cut`, the tokens left out."""
    with _no_panic():
        frame = Frame.of(tokenizer, pair)
        first = _ids(tokenizer, rows["text"])
        second = _ids(tokenizer, rows["pair"]) if pair else [[] for _ in first]
    features = []
    for a, b in zip(first, second, strict=True):
        keep_a, keep_b = room(window, frame, len(a), len(b))
        feature: dict[str, Any] = frame.put_around(keep(a, keep_a), keep(b, keep_b))
        feature["cut"] = len(a) + len(b) - keep_a - keep_b
        features.append(feature)
    return features


def pad(features: Sequence[Mapping[str, Any]], tokenizer: Any) -> dict[str, torch.Tensor]:
    """Token ids, segments and attention mask, padded to the longest of the batch."""
    names = [name for name in ("input_ids", "token_type_ids") if name in features[0]]
    plain = {name: [feature[name] for feature in features] for name in names}
    batch: dict[str, torch.Tensor] = dict(tokenizer.pad(plain, return_tensors="pt"))
    return batch


@contextmanager
def _no_panic() -> Iterator[None]:
    """Turn a tokenizer's panic into an error: it is no Exception, has no name to import, and passes every handler."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"the model's tokenizer breaks on a text: {error}; its tokenizer.json is damaged") from None


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    # verbose=False: a text longer than the encoder takes is cut and counted here, which is no news to warn of.
    found = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    ids: list[list[int]] = found["input_ids"]
    return ids
