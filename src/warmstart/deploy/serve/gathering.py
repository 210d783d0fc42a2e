"""What has come in while a batch was computed is computed as the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Part = TypeVar("Part")


class Gathering(Generic[Piece, Part]):
    """Computes pieces together, one batch after the other.

    `serve.batch` puts a batch together from what comes within its wait, whether or not it can be computed yet. Under
    load that is a text or two, however many such batches are in line already; so here all that are in line are joined.

    Args:
        compute: Gives one part for each piece; called in a thread, so that others can join the line meanwhile.
        weigh: How full a batch is with these.
        most: What a batch may weigh.
    """

    def __init__(
        self, compute: Callable[[list[Piece]], list[Part]], weigh: Callable[[Sequence[Piece]], int], most: int
    ) -> None:
        self.compute, self.weigh, self.most = compute, weigh, most
        self.line: deque[tuple[Sequence[Piece], asyncio.Future[list[Part]]]] = deque()
        self.working: asyncio.Task[None] | None = None

    async def answer(self, pieces: Sequence[Piece]) -> list[Part]:
        """The parts for these pieces, computed together with those of others."""
        own: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
        self.line.append((pieces, own))
        if self.working is None or self.working.done():
            # A task of its own: whoever asked may give up, and others wait for the same batch.
            self.working = asyncio.create_task(self._work())
        return await own

    async def _work(self) -> None:
        while self.line:
            await self._next()

    async def _next(self) -> None:
        """Compute the first of the line, and as many after it as fit."""
        taken = [self.line.popleft()]
        while self.line and self.weigh([*_flat(taken), *self.line[0][0]]) <= self.most:
            taken.append(self.line.popleft())
        taken = [one for one in taken if not one[1].done()]
        try:
            found = iter(await asyncio.to_thread(self.compute, _flat(taken))) if taken else iter(())
        except Exception as error:
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            return
        for pieces, future in taken:
            parts = [next(found) for _ in pieces]
            if not future.done():  # else who asked has given up meanwhile
                future.set_result(parts)


def _flat(taken: Sequence[tuple[Sequence[Piece], object]]) -> list[Piece]:
    return [piece for pieces, _ in taken for piece in pieces]
