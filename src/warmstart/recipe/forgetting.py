"""The part of a recipe that asks what a training does to what the encoder knew."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from warmstart.options import Options


class Forgetting(Options):
    """What the encoder still knows of general text, before, while and after it learns the task."""

    text: str | list[str]
    """General text, one text a row: a path, a list of paths, or `hub:NAME[@REVISION][:CONFIG]:SPLIT`."""
    reference: str | None = None
    """The encoder to compare with. None: the recipe's `model`, in all its stages."""
    column: str = "text"
    """The file's column that holds the text."""
    rows: Annotated[int, Field(ge=1)] = 200
    """How many of the texts the encoder is asked about, drawn once. Where the model has no head for masked tokens, one
    is fitted first, on others of the texts: at most ten times as many, and at least as many must be there."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """The most tokens of a text that are read, special tokens included."""
    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Measure every so many optimizer steps, too. None: before and after the training."""
