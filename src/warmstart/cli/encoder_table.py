"""Encoders as a table: what a linear probe on each scored, how fast it is, and how large."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.cli import screen
from warmstart.evaluation.records.encoder_choice import EncoderScore


def show(scores: Sequence[EncoderScore]) -> None:
    """Print the scores, in their order."""
    rows = [
        {
            "encoder": one.name,
            one.metric: one.score,
            "seconds": f"{one.seconds:.0f}",
            "texts/s": f"{one.texts_per_second:,.0f}",
            "MB": f"{one.megabytes:.0f}",
        }
        for one in scores
    ]
    screen.grid("linear probes, by cross-validation on the training rows", rows)
