"""What computes answers behind the application: a protocol, so that the application can be tested without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from warmstart.deploy.serve.served_models import InputRow, ServedModel

Outcome = dict[str, object] | str
"""The answer to a row, or the reason why there is none."""


@dataclass
class BackendReply:
    """What a backend returns for the rows of a request.

    Attributes:
        outcomes: One for each row.
        batch_sizes: Number of rows in each batch that is reported with these rows; every batch is reported once.
        tokens_cut: Tokens outside of the window.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)
    tokens_cut: int = 0


class ModelUnavailable(Exception):
    """No replica of the model can answer at present."""


class Backend(Protocol):
    """Replicas of models that answer."""

    async def open(self, model: ServedModel) -> None:
        """Make a model ready to answer; raises a `WarmstartError` that says what is wrong with it."""
        ...

    async def answer(self, model: ServedModel, rows: Sequence[InputRow]) -> BackendReply:
        """Answer rows of `ServedModel.rows`; raises `ModelUnavailable` where that is not possible at present."""
        ...

    async def explain(self, model: ServedModel, row: InputRow) -> BackendReply:
        """Answer a row together with the words behind the answer; raises as `answer` does."""
        ...

    async def close(self, model: ServedModel) -> None:
        """Release a model once the requests that it is computing are answered."""
        ...
