"""Examples for probes: the states of all layers for texts with a label, or for the words of texts with entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from warmstart.data.schema import Row
from warmstart.inference.features import Extractor
from warmstart.inference.token_features import TokenExtractor
from warmstart.inspection.cka import LinearCKA
from warmstart.inspection.probes import ProbeExamples
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.shared.tagging_units import words_of
from warmstart.text.alignment import CharSpan, word_ids

OUTSIDE = "O"
"""The label of a word that is in no entity."""


def text_examples(extractor: Extractor, rows: Sequence[Row], progress: Progress = silent) -> ProbeExamples:
    """Each text with its label; its type is its first word.

    Args:
        extractor: With `layers="all"`.
        rows: With `text`, `label` and, for a pair, `pair`.
    """
    inputs = [{name: row[name] for name in ("text", "pair") if row.get(name) is not None} for row in rows]
    with progress.bar("states", len(rows)) as bar:
        chunks = [vectors for _, vectors in extractor.stream(inputs, advance=bar.advance)]
    types = [row["text"].split()[0].casefold() for row in rows]
    return ProbeExamples(np.concatenate(chunks), [str(row["label"]) for row in rows], types)


def word_examples(
    extractor: Extractor, rows: Sequence[Row], limit: int | None = None, progress: Progress = silent
) -> ProbeExamples:
    """Each word with the type of the entity that it is in; the states are those of its first token.

    Args:
        extractor: With `layers="all"`.
        rows: With `text`, `entities` and, where the text is split into words already, `words`.
        limit: The maximum number of words.
    """
    vectors: list[Any] = []
    labels: list[str] = []
    types: list[str] = []
    with progress.bar("states", len(rows)) as bar:
        for row in rows:
            words = [(word["start"], word["end"]) for word in row.get("words") or ()] or words_of(row["text"])
            for word, vector in _first_tokens(extractor, row["text"], words):
                start, end = words[word]
                vectors.append(vector)
                labels.append(_label(row["entities"], start))
                types.append(row["text"][start:end].casefold())
            bar.advance()
            if limit is not None and len(labels) >= limit:
                break
    return ProbeExamples(np.stack(vectors)[:limit], labels[:limit], types[:limit])


def _first_tokens(extractor: Extractor, text: str, words: Sequence[CharSpan]) -> list[tuple[int, Any]]:
    """Each word that has a token in the window, by its number, with the states of its first one."""
    firsts: dict[int, Any] = {}
    for chunk in TokenExtractor(extractor).stream([{"text": text}]):
        spans = [(start or 0, end or 0) for start, end in zip(chunk.starts, chunk.ends, strict=True)]
        for token, word in enumerate(word_ids(spans, words)):
            if word >= 0 and chunk.segments[token] is not None:
                firsts.setdefault(word, chunk.vectors[token])
    return list(firsts.items())


def _label(entities: Sequence[Row], start: int) -> str:
    """The type of the entity that a character is in."""
    return next((one["label"] for one in entities if one["start"] <= start < one["end"]), OUTSIDE)


def compare_layers(
    first: Extractor, second: Extractor, rows: Sequence[Row], progress: Progress = silent
) -> list[float]:
    """Linear CKA of each layer of two encoders with the same tokenizer, embeddings first, over the tokens of texts.

    Args:
        first: With `layers="all"`, as the second.
    """
    inputs = [{name: row[name] for name in ("text", "pair") if row.get(name) is not None} for row in rows]
    cka = LinearCKA()
    with progress.bar("comparing", len(inputs)) as bar:
        for text in inputs:
            for chunks in zip(*(TokenExtractor(each).stream([text]) for each in (first, second)), strict=True):
                cka.add(*(list(torch.from_numpy(chunk.vectors).unbind(1)) for chunk in chunks))
            bar.advance()
    return cka.values()
