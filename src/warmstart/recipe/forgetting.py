"""The section of a recipe that measures what the encoder forgets in training."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from warmstart.options import Options


class ForgettingOptions(Options):
    """Forgetting: how well the encoder still predicts masked tokens of general text, before and after training."""

    text: str | list[str]
    """General text, one text per row: a path, a list of paths, or `hub:NAME[@REVISION][:CONFIG]:SPLIT`."""
    reference: str | None = None
    """The encoder to compare with. Default: the recipe's `model`, in all stages."""
    column: str = "text"
    """The file's column with the text."""
    rows: Annotated[int, Field(ge=1)] = 200
    """How many of the texts to use, sampled once. If the model has no masked-language-modeling head, one is trained
    first, on other texts of the file: at least as many, at most ten times as many."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """The maximum number of tokens in a text, including special tokens."""
    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Also measure every N optimizer steps. Default: only before and after training."""
