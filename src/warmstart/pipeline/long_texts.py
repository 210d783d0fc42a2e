"""The rule for few long texts: the encoder reads each of them to its end, in short slices.

It rests on film reviews (docs/results/defaults.md), of which a window of 256 tokens shows a quarter. With 64 training
rows a label, a regression on the mean over slices was right on 71% of 334 test rows with slices of 64 tokens, 71% with
32 and 64% with 256; the head of each review gave 63%. After a contrastive training on one slice a text it was 75%.
"""

from __future__ import annotations

import math

from warmstart.data.table import Table
from warmstart.evaluation.records.training import RuleRecord
from warmstart.recipe import Recipe
from warmstart.text.windows import DEFAULT_TOKENS

UNREAD = 0.3
"""The share of the texts beyond the window above which they are read in slices."""
SLICE_TOKENS = 64
"""Tokens of a slice: about a paragraph, and what encoders of sentences are trained on."""
CHARACTERS = 4
"""Characters of a token, as far as rules know."""


def visible_characters(recipe: Recipe) -> int:
    """About how much of a text the encoder sees at once."""
    window = recipe.window
    tokens = window.max_tokens or DEFAULT_TOKENS
    if window.method == "slices":
        tokens = min(tokens, window.slice_tokens or tokens)
    return CHARACTERS * tokens


def slices_rules(recipe: Recipe, train: Table) -> list[RuleRecord]:
    """That texts are read in slices, where much of them lies outside the window and the recipe leaves it open."""
    if recipe.window.method != "auto":
        return []
    seen, lengths = visible_characters(recipe), [len(text) for text in train.column("text")]
    unread = math.fsum(max(0, length - seen) for length in lengths) / max(1, sum(lengths))
    if unread <= UNREAD:
        return []
    read = RuleRecord("window.method", "slices", f"a window shows {1 - unread:.0%} of the texts")
    if recipe.window.slice_tokens is not None:
        return [read]
    tokens = min(SLICE_TOKENS, recipe.window.max_tokens or SLICE_TOKENS)
    return [read, RuleRecord("window.slice_tokens", tokens, "the encoder was trained on short texts")]
