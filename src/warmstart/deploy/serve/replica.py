"""A replica: one copy of a model in a process of Ray Serve, which computes requests that come together at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from ray import serve

from warmstart.deploy.serve.backend import Found
from warmstart.deploy.serve.gathering import Gathering
from warmstart.deploy.serve.models import Row, seal_of
from warmstart.errors import MissingExtra, ModelError, WarmstartError
from warmstart.inference.predictor import Predictor

Piece = tuple[int, list[Row]]
"""Rows of one request, and what they weigh in a batch."""
Part = tuple[list[Found], int, int]
"""What those rows were answered with; for the first of a batch its number of rows and the tokens cut, else 0."""
IN_LINE = 1 << 16
"""Batches of Ray Serve's that wait for their turn: no bound, for requests are bounded before."""
OPENS = "add_port_to_grpc_server"
"""The function of Ray Serve's that opens the port of a replica."""


def weigh(pieces: Sequence[Piece]) -> int:
    """How full a batch is with these."""
    return sum(weight for weight, _ in pieces)


class Replica:
    """A model that answers pieces of requests, several together.

    Args:
        seal: Of the state of the model that is meant: a replica that is started again finds it, or does not start.
    """

    def __init__(
        self, path: str, seal: str, precision: str, engine: str, threads: int, batch: int, wait: float
    ) -> None:
        close_port()
        if seal_of(path) != seal:
            raise ModelError(f"{path} was changed since it was opened")
        torch.set_num_threads(threads)
        self.predictor = Predictor.load(path, precision, engine)
        self.answer.set_max_batch_size(batch)
        self.answer.set_batch_wait_timeout_s(wait)
        example = self.predictor.task.example
        self.predictor.predict([example])  # What is slow the first time is done before the first request.
        self.gathering = Gathering(self._answer, weigh, batch)

    @serve.batch(batch_size_fn=weigh, max_concurrent_batches=IN_LINE)  # type: ignore[untyped-decorator]
    async def answer(self, pieces: list[Piece]) -> list[Part]:
        """Answer pieces that came together."""
        return await self.gathering.answer(pieces)

    def _answer(self, pieces: list[Piece]) -> list[Part]:
        before = self.predictor.cut.since(type(self.predictor.cut)())
        rows = [row for _, own in pieces for row in own]
        found: Iterator[Found] = iter(self._together(rows))
        cut = self.predictor.cut.since(before).tokens_cut
        # What is counted of a batch is told with the first of its pieces.
        return [
            ([next(found) for _ in own], *((0, 0) if at else (len(rows), cut))) for at, (_, own) in enumerate(pieces)
        ]

    def _together(self, rows: list[Row]) -> list[Found]:
        try:
            return list(self.predictor.stream(rows))
        except Exception:
            # One row may spoil a batch for all others: alone it is found, and the others are answered.
            return [self._alone(row) for row in rows]

    def _alone(self, row: Row) -> Found:
        try:
            return next(self.predictor.stream([row]))
        except WarmstartError as error:
            return str(error)
        except Exception as error:
            return f"this text cannot be answered ({type(error).__name__})"


def close_port() -> None:
    """Keep Ray Serve from opening the port that each of its replicas has for others, on every interface.

    Whoever reaches that port needs no token, and what is sent there is unpickled, so it runs. Handles, as the front's,
    do without it. There is no option for it: where the function that opens it is gone, so is our knowledge of what is
    open, and a replica does not start.
    """
    from ray.serve._private import replica

    if not hasattr(replica, OPENS):
        raise MissingExtra(
            f"this Ray opens ports that warmstart does not know ({OPENS} is gone): pip install 'ray==2.60.0'"
        )
    setattr(replica, OPENS, lambda server, address: 0)


def deployed(options: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """An application of Ray Serve with replicas of one model."""
    return serve.deployment(Replica, **options).bind(**arguments)
