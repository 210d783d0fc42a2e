"""Dynamic batching: everything that arrives while one batch is computed is computed as the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class DynamicBatcher(Generic[Item, Result]):
    """Computes items together, one batch after the other.

    `serve.batch` forms a batch from what arrives within its wait, whether or not the batch can be computed yet. Under
    load that is a text or two, however many such batches wait already; so here all that wait are joined.

    Args:
        compute: Returns one result for each item; called in a thread, so that others can join the queue meanwhile.
        weigh: The weight of a batch of these items.
        capacity: The largest weight of a batch; what is heavier by itself is computed alone.
    """

    def __init__(
        self, compute: Callable[[list[Item]], list[Result]], weigh: Callable[[Sequence[Item]], int], capacity: int
    ) -> None:
        self.compute, self.weigh, self.capacity = compute, weigh, capacity
        self._queue: deque[tuple[Sequence[Item], asyncio.Future[list[Result]]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results for these items, computed together with those of others."""
        results: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._queue.append((items, results))
        if self._worker is None or self._worker.done():
            # A task of its own: a caller may give up while others wait for the same batch.
            self._worker = asyncio.create_task(self._compute_all())
        return await results

    async def _compute_all(self) -> None:
        while self._queue:
            await self._compute_next()

    async def _compute_next(self) -> None:
        """Compute the first of the queue, and as many after it as fit."""
        batch = [self._queue.popleft()]
        while self._queue and self.weigh([*_flatten(batch), *self._queue[0][0]]) <= self.capacity:
            batch.append(self._queue.popleft())
        batch = [(items, future) for items, future in batch if not future.done()]
        try:
            results = iter(await asyncio.to_thread(self.compute, _flatten(batch))) if batch else iter(())
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for items, future in batch:
            own_results = [next(results) for _ in items]
            if not future.done():  # otherwise the caller has given up meanwhile
                future.set_result(own_results)


def _flatten(batch: Sequence[tuple[Sequence[Item], object]]) -> list[Item]:
    return [item for items, _ in batch for item in items]
