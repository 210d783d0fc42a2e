"""Which model a run ended with, and what held-out rows say of those it could have ended with."""

from __future__ import annotations

from dataclasses import dataclass

FILE = "final_model.json"


@dataclass(frozen=True)
class CandidateRecord:
    """A model that the run could have ended with."""

    name: str
    """How the encoder reads a row and what is done to it, such as `fine-tuned` or `bi, linear-probe`."""
    value: float
    """The headline on the held-out rows."""


@dataclass(frozen=True)
class FinalModelRecord:
    """The choice of the final model."""

    chosen: str
    metric: str
    part: str
    """The rows that decided: `dev`, or `held-out` training rows, with which it was trained again afterwards."""
    rows: int
    candidates: list[CandidateRecord]

    @property
    def sentence(self) -> str:
        """What a user is told."""
        return f"final model: {self.choice}"

    @property
    def choice(self) -> str:
        """What was chosen, and by what."""
        rows = f"{self.rows:,} {'dev rows' if self.part == 'dev' else 'held-out training rows'}"
        values = ", ".join(f"{one.name} {one.value:.3f}" for one in self.candidates)
        return f"{self.chosen}, by {self.metric} on {rows} ({values})"
