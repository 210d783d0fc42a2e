"""Where each token of a model's input comes from: which column of the row, and which of its characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from warmstart.tasks.shared.prompts import prompted
from warmstart.tasks.shared.text_inputs import no_panic
from warmstart.text.alignment import CharSpan, tokenize_with_offsets
from warmstart.text.windows import Frame, View, Window, slices, take_ranges, views

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Origin: TypeAlias = tuple[str, CharSpan] | None
"""The column and the characters of a token; None for a special token, or one of a prompt."""
FeatureOrigins: TypeAlias = list[list[Origin]]
"""The origins of a feature's tokens, a list for each of its sequences."""


def text_origins(
    row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, window: Window, pair: bool, separate: bool
) -> list[FeatureOrigins]:
    """The origins in the feature that `encode_texts` makes of a row, its only one."""
    names = ("text", "pair") if pair else ("text",)
    texts = {name: [str(row[name])] for name in names}
    with_prompt = prompted(texts, window.prompt, separate)
    columns = []
    for name in names:
        # A prompt is the beginning of the text that is tokenized, and no part of the user's own.
        shift = len(with_prompt[name][0]) - len(texts[name][0])
        columns.append(_origins(tokenizer, name, with_prompt[name][0], "text", shift))
    if separate:
        frame = Frame.of(tokenizer, False)
        return [[_framed(frame, views(window, frame, len(own))[0], own) for own in columns]]
    frame = Frame.of(tokenizer, pair)
    shown = views(window, frame, *map(len, columns))
    return [[_framed(frame, view, *columns) for view in shown]]


def window_origins(
    text: str, tokenizer: PreTrainedTokenizerBase, window: Window, by: Literal["text", "character"]
) -> list[FeatureOrigins]:
    """The origins in the features of a text that is read in windows, one for each."""
    frame = Frame.of(tokenizer, False)
    own = _origins(tokenizer, "text", text, by)
    shown = slices(len(own), window.max_tokens - frame.size, window.overlap)
    return [[_framed(frame, ((part,), ()), own)] for part in shown]


def question_origins(
    row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, window: Window, by: Literal["text", "character"]
) -> list[FeatureOrigins]:
    """The origins in the features of a question and its context, one for each window of the context."""
    frame = Frame.of(tokenizer, True)
    both = [_origins(tokenizer, name, str(row[name]), by) for name in ("question", "context")]
    return [[_framed(frame, view, *both)] for view in views(window, frame, *map(len, both))]


def _origins(
    tokenizer: PreTrainedTokenizerBase, column: str, text: str, by: Literal["text", "character"], shift: int = 0
) -> list[Origin]:
    with no_panic():
        [tokens] = tokenize_with_offsets(tokenizer, [text], by)
    spans = [(start - shift, end - shift) for start, end in tokens.offsets]
    return [(column, span) if 0 <= span[0] < span[1] else None for span in spans]


def _framed(frame: Frame, view: View, *columns: Sequence[Origin]) -> list[Origin]:
    """The origins of what a view shows, with the special tokens around it."""
    first, second = (take_ranges(column, ranges) for column, ranges in zip((*columns, ()), view, strict=False))
    around = ([None] * len(tokens) for tokens in (frame.before, frame.between, frame.after))
    before, between, after = around
    return [*before, *first, *between, *second, *after]
