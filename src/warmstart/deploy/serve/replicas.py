"""Models in Ray Serve: one application for each state of a model, so that a new one is ready before the old one goes.

Ray Serve has an HTTP proxy, which is left out: it reads a whole body, however large and slow, before an application
sees any of it, and its queue is told of in its own words. So the front is ours, and speaks to the replicas by handles.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from warmstart.deploy.serve.backend import Answered, Away
from warmstart.deploy.serve.models import Row, Served
from warmstart.errors import ModelError

PER_WEIGHT = 2048
"""Characters that weigh as much as a text: so long texts come in smaller batches."""


@dataclass(frozen=True)
class Replicas:
    """How many copies of each model there are, and how they gather requests.

    Attributes:
        least, most: Copies; where they differ, Ray Serve starts and stops them by the requests under way.
        batch: Texts that are computed together.
        wait: Seconds that the first of them waits for others.
        queue: Pieces of requests that wait at a replica.
        threads: Of each copy; None to share the cores.
    """

    least: int = 1
    most: int = 1
    batch: int = 64
    wait: float = 0.005
    queue: int = 256
    precision: str = "fp32"
    engine: str = "torch"
    threads: int | None = None


class RayBackend:
    """Models in a Ray that is connected already.

    Args:
        own: The Ray is ours alone; then replicas need no free core, so that a new state fits beside the old one.
    """

    def __init__(self, asked: Replicas, models: int, own: bool) -> None:
        from ray import serve

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # the log of a server is ours
        serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
        self.asked, self.own = asked, own
        self.threads = asked.threads or _threads(models * asked.most)
        self.handles: dict[str, Any] = {}
        self.under_way: Counter[str] = Counter()

    async def open(self, model: Served) -> None:
        """Start replicas and wait until each has answered its example."""
        self.handles[_name(model)] = await asyncio.to_thread(self._open, model)

    def _open(self, model: Served) -> Any:
        from ray import serve

        from warmstart.deploy.serve.replica import deployed

        asked = self.asked
        options: dict[str, Any] = {
            "name": "replica",
            "max_ongoing_requests": max(asked.queue, 2 * asked.batch),
            "max_queued_requests": asked.queue,
            "health_check_period_s": 1,
            "max_constructor_retry_count": 1,
            "graceful_shutdown_timeout_s": 30,
            "ray_actor_options": {"num_cpus": 0 if self.own else 1},
        }
        if asked.least == asked.most:
            options["num_replicas"] = asked.least
        else:
            options["autoscaling_config"] = {
                "min_replicas": asked.least,
                "max_replicas": asked.most,
                "target_ongoing_requests": asked.batch,
            }
        arguments = {
            "path": str(model.path.resolve()),
            "seal": model.seal,
            "precision": asked.precision,
            "engine": asked.engine,
            "threads": self.threads,
            "batch": asked.batch,
            "wait": asked.wait,
        }
        try:
            return serve.run(deployed(options, arguments), name=_name(model), route_prefix=None)
        except RuntimeError as error:
            reason = _reason(serve.status().applications.get(_name(model))) or str(error)
            serve.delete(_name(model))
            raise ModelError(f"{model.path}: no replica could be started: {' '.join(reason.split())[-300:]}") from None

    async def answer(self, model: Served, rows: Sequence[Row]) -> Answered:
        """Send rows in pieces, each no more than a batch, and put together what comes back."""
        from ray.exceptions import RayError
        from ray.serve.exceptions import RayServeException

        name = _name(model)
        handle = self.handles.get(name)
        if handle is None:
            raise Away(f"{model.name} is not open")
        self.under_way[name] += 1
        try:
            parts = await asyncio.gather(*(handle.answer.remote(piece) for piece in pieces(rows, self.asked.batch)))
        except (RayError, RayServeException):
            # A replica that died with requests under way: Ray Serve starts another one.
            raise Away(f"{model.name} is being started again") from None
        finally:
            self.under_way[name] -= 1
        return Answered(
            [one for found, _, _ in parts for one in found],
            [size for _, size, _ in parts if size],
            sum(cut for _, _, cut in parts),
        )

    async def close(self, model: Served) -> None:
        """Stop the replicas of one state of a model, when they have answered what they were asked."""
        from ray import serve

        while self.under_way[_name(model)]:
            await asyncio.sleep(0.05)
        self.handles.pop(_name(model), None)
        await asyncio.to_thread(serve.delete, _name(model))

    def stop(self) -> None:
        """Leave nothing behind on a cluster of others."""
        from ray import serve

        for name in () if self.own else tuple(self.handles):
            serve.delete(name)


def pieces(rows: Sequence[Row], batch: int) -> Iterator[tuple[int, list[Row]]]:
    """Rows in stretches that weigh no more than a batch, each with its weight."""
    own: list[Row] = []
    held = 0
    for row in rows:
        size = sum(len(str(one)) for one in row.values() if one is not None)
        weight = min(batch, 1 + size // PER_WEIGHT)
        if own and held + weight > batch:
            yield held, own
            own, held = [], 0
        own.append(row)
        held += weight
    if own:
        yield held, own


def _reason(application: Any) -> str:
    """What a replica said when it could not be started, without the calls that led there."""
    said = "\n".join(one.message for one in application.deployments.values()) if application else ""
    found = re.findall(r"^(?:[\w.]+\.)?(\w*(?:Error|Extra)): (.+)$", said, re.MULTILINE)
    return ": ".join(found[-1]).removeprefix("ModelError: ") if found else ""


def _name(model: Served) -> str:
    return f"{model.name}-{model.seal[:12]}"


def _threads(copies: int) -> int:
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) else max(1, (os.cpu_count() or 1) // copies)
