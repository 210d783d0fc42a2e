"""How the two texts of a pair are read: together in one input, or each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from warmstart.errors import RecipeError
from warmstart.options import Options


class PairOptions(Options):
    """Options of a task that takes single texts or pairs."""

    encoder: Literal["auto", "bi", "cross"] = "auto"
    """How a pair is read: `cross`, both texts in one input, so that the encoder compares them word by word; or `bi`,
    each by itself, where the head compares their two vectors, which needs far fewer rows with an encoder that was
    trained for sentence similarity. auto: by the [rules](../explanation/rules.md)."""

    synonyms: ClassVar[Mapping[str, str]] = {"encoder_type": "encoder"}


def reads_separately(options: PairOptions, pair: bool) -> bool:
    """Whether each text of a pair is an input of its own; refuses it for single texts."""
    if options.encoder == "bi" and not pair:
        raise RecipeError(
            "task.encoder: found bi, which reads the two texts of a pair, but the rows have single texts; name the "
            "column of the second text (data.columns.pair), or leave task.encoder out"
        )
    return options.encoder == "bi"
