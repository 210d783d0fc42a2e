"""A replica: one copy of a model in a process of Ray Serve, which computes requests in dynamic batches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import torch
from ray import serve

from warmstart.deploy.serve.backend import Outcome
from warmstart.deploy.serve.dynamic_batching import DynamicBatcher
from warmstart.deploy.serve.named_runs import seal_of
from warmstart.deploy.serve.row_chunks import ChunkReply, RowChunk, total_weight
from warmstart.deploy.serve.served_models import InputRow
from warmstart.errors import MissingExtraError, ModelError, WarmstartError
from warmstart.inference.predictor import Predictor

MAX_WAITING_BATCHES = 1 << 16
"""Batches of Ray Serve that wait for their turn: in effect unlimited, since requests were limited before."""
EXPLAINED_BY = "occlusion"
"""The method of explanations: one that only predicts, and so leaves the model alone that others use meanwhile."""
PORT_OPENER = "add_port_to_grpc_server"
"""The function of Ray Serve that opens the port of a replica."""


@dataclass(frozen=True)
class ReplicaConfig:
    """The model of a replica, and how it computes.

    Attributes:
        seal: The state of the model that is meant: a replica that is restarted finds this state, or does not start.
        batch_size: Texts that are computed together.
        wait_seconds: How long the first of them waits for others.
    """

    path: str
    seal: str
    precision: str
    engine: str
    threads: int
    batch_size: int
    wait_seconds: float


class Replica:
    """A model that answers chunks of requests, several together."""

    def __init__(self, config: ReplicaConfig) -> None:
        close_port()
        if seal_of(config.path) != config.seal:
            raise ModelError(f"{config.path} was changed since it was opened")
        torch.set_num_threads(config.threads)
        self.predictor = Predictor.load(config.path, config.precision, config.engine)
        self.answer.set_max_batch_size(config.batch_size)
        self.answer.set_batch_wait_timeout_s(config.wait_seconds)
        self.predictor.predict([self.predictor.task.example])  # warm up: the first answer is slow
        self.batcher = DynamicBatcher(self._answer_batch, total_weight, config.batch_size)
        self.explaining = asyncio.Lock()

    @serve.batch(batch_size_fn=total_weight, max_concurrent_batches=MAX_WAITING_BATCHES)  # type: ignore[untyped-decorator]
    async def answer(self, chunks: list[RowChunk]) -> list[ChunkReply]:
        """Answer chunks that arrived together."""
        return await self.batcher.submit(chunks)

    def _answer_batch(self, chunks: list[RowChunk]) -> list[ChunkReply]:
        cut_before = self.predictor.cut.since(type(self.predictor.cut)())
        rows = [row for chunk in chunks for row in chunk.rows]
        outcomes = iter(self._answer_together(rows))
        tokens_cut = self.predictor.cut.since(cut_before).tokens_cut
        replies = [ChunkReply([next(outcomes) for _ in chunk.rows]) for chunk in chunks]
        replies[0] = ChunkReply(replies[0].outcomes, len(rows), tokens_cut)
        return replies

    def _answer_together(self, rows: list[InputRow]) -> list[Outcome]:
        try:
            return list(self.predictor.stream(rows))
        except Exception:
            # One row may spoil the batch of all others: row by row it is found, and the others are answered.
            return [self._answer_alone(row) for row in rows]

    def _answer_alone(self, row: InputRow) -> Outcome:
        try:
            return next(self.predictor.stream([row]))
        except WarmstartError as error:
            return str(error)
        except Exception as error:
            return f"this text cannot be answered ({type(error).__name__})"

    async def explain(self, row: InputRow) -> Outcome:
        """Answer a row together with the words behind the answer; one at a time, beside the batches."""
        async with self.explaining:
            return await asyncio.to_thread(self._explain, row)

    def _explain(self, row: InputRow) -> Outcome:
        from warmstart.inspection.explanations import explain

        try:
            return explain(self.predictor, row, EXPLAINED_BY).as_answer()
        except WarmstartError as error:
            return str(error)
        except Exception as error:
            return f"this answer cannot be explained ({type(error).__name__})"


def close_port() -> None:
    """Keep Ray Serve from opening the port that each of its replicas offers to others, on every interface.

    Whoever reaches that port needs no token, and what is sent there is unpickled and so can run code. Handles, which
    the server uses, work without it. There is no option for it: where the function that opens it is gone, we no longer
    know what is open, and a replica does not start.
    """
    from ray.serve._private import replica

    if not hasattr(replica, PORT_OPENER):
        raise MissingExtraError(
            f"this Ray opens ports that warmstart does not know ({PORT_OPENER} is gone): pip install 'ray==2.60.0'"
        )
    setattr(replica, PORT_OPENER, lambda server, address: 0)


def bind_application(options: dict[str, object], config: ReplicaConfig) -> serve.Application:
    """An application of Ray Serve with replicas of one model."""
    return serve.deployment(Replica, **options).bind(config)
