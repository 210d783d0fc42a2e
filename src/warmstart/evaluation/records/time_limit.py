"""`time-limit/time_limit.json`: how many steps fit into the time that a recipe allows."""

from __future__ import annotations

from dataclasses import dataclass

FILE = "time_limit.json"


@dataclass(frozen=True)
class TimeLimitRecord:
    """The steps that a training was given for the time it had."""

    limit: float
    """Seconds for everything before the run is measured."""
    spent: float
    """Seconds that were gone before training."""
    seconds_per_step: float
    steps: int
    """The steps to train for; 0 where there is time for none, and the linear probe is the model."""
    of_steps: int
    """The steps that training would take without a limit."""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        return (
            f"time limit of {self.limit:.0f} s: {self.steps:,} of {self.of_steps:,} steps, at "
            f"{self.seconds_per_step:.2f} s a step"
        )
