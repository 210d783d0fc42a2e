"""Prompts: what is put before a text for an encoder that was trained with it, such as `query: `.

A prompt is put before a text here and nowhere else, before the text is tokenized. So it is the beginning of the text:
`head` and `head+tail` show it first, while `tail` and `slices` treat a long text as if the prompt were part of it, and
its tokens are counted among those of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.tasks.base import Columns

AUTO = "auto"
"""In a recipe: the prompt that the encoder was trained with, if any."""
PROMPT = "data.prompt"
"""The recipe field with the prompt of every text; `Window.prompt` holds what was decided."""


def put_before(prompt: str, texts: Sequence[str]) -> list[str]:
    """The texts, each with the prompt before it; as they are where it is empty, or not decided."""
    return [prompt + text for text in texts] if prompt not in {"", AUTO} else list(texts)


def prompted(rows: Columns, prompt: str, separate: bool = False) -> Columns:
    """Rows of `text`, and of `pair` where there are two, with the prompt in its place.

    Args:
        separate: The texts of a pair are inputs of their own, and each has the prompt. Otherwise the two are one input,
            which the prompt begins, as in sentence-transformers.
    """
    if not prompt:
        return rows
    names = {"text", "pair"} if separate else {"text"}
    return {name: put_before(prompt, values) if name in names else values for name, values in rows.items()}
