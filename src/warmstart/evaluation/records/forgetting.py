"""`forgetting.json` of a stage: what the encoder still knew of general text before, during and after a training."""

from __future__ import annotations

from dataclasses import dataclass, field

from warmstart.evaluation.records.files import OPTIONAL

FILE = "forgetting.json"


@dataclass(frozen=True)
class ForgettingPoint:
    """What the encoder knew at a step."""

    step: int
    loss: float | None
    """Mean loss of the masked tokens; None where the tokenizer has no mask token."""
    accuracy: float | None
    """Share of the masked tokens that are predicted right."""
    cka: list[float | None]
    """Linear CKA of each layer with the reference encoder, embeddings first; None where it is undefined."""
    scores: dict[str, float | None] | None = field(default=None, metadata=OPTIONAL)
    """How good the model was at its tasks on the dev rows, by metric."""


@dataclass(frozen=True)
class ForgettingRecord:
    """What was asked of the encoder, and what it knew along the training."""

    masked: int
    """How many tokens were masked."""
    rows: int
    rows_cut: int
    """Texts longer than the most tokens that are seen."""
    tokens: int
    tokens_cut: int
    reader: str | None
    """What reads masked tokens from the encoder's states; None where the tokenizer has no mask token."""
    precision: str
    seen: list[ForgettingPoint]
    """Before the training, every so many steps, and after it."""
