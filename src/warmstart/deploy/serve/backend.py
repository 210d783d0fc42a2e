"""What computes behind the front: a protocol, so that the front can be tried without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from warmstart.deploy.serve.models import Row, Served

Found = dict[str, Any] | str
"""The answer to a row, or why there is none."""


@dataclass
class Answered:
    """What rows were answered with.

    Attributes:
        found: One for each row.
        batches: How many rows the batches had that are told with these rows; each is told once.
        cut: Tokens that the window left out.
    """

    found: list[Found] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    cut: int = 0


class Away(Exception):
    """No copy of the model can answer at present."""


class Backend(Protocol):
    """Copies of models that answer."""

    async def open(self, model: Served) -> None:
        """Get a model ready to answer; raises what is wrong with it in an error of warmstart's."""
        ...

    async def answer(self, model: Served, rows: Sequence[Row]) -> Answered:
        """Answer rows of `Served.rows`; raises `Away` where that is not possible at present."""
        ...

    async def close(self, model: Served) -> None:
        """Let a model go, when what is under way is done."""
        ...
