"""Models in Ray Serve: one application for each state of a model, so that a new one is ready before the old one goes.

Ray Serve's HTTP proxy is not used: it reads a whole body, however large and slow, before an application sees any of it,
and refuses in its own words when its queue is full. Our application calls the replicas by handles instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmstart.deploy.serve.backend import BackendReply, ModelUnavailable
from warmstart.deploy.serve.row_chunks import ChunkReply, split_rows
from warmstart.errors import ModelError

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle
    from ray.serve.schema import ApplicationStatusOverview

    from warmstart.deploy.serve.served_models import InputRow, ServedModel


@dataclass(frozen=True)
class ReplicaSettings:
    """How many replicas each model has, and how they batch requests.

    Attributes:
        min_replicas: Replicas of each model; Ray Serve starts more as requests come, up to `max_replicas`.
        batch_size: Texts that are computed together.
        wait_seconds: How long the first of them waits for others.
        max_queue: Chunks of requests that may wait at a replica.
        threads: Threads of each replica; None to share the cores.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    batch_size: int = 64
    wait_seconds: float = 0.005
    max_queue: int = 256
    precision: str = "fp32"
    engine: str = "torch"
    threads: int | None = None


class RayBackend:
    """Models in a Ray that is already connected.

    Args:
        own: Whether the Ray is ours alone; then replicas need no free core, so that a new state fits beside the old.
    """

    def __init__(self, settings: ReplicaSettings, models: int, own: bool) -> None:
        from ray import serve

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # a server's log is its own
        serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
        self.settings, self.own = settings, own
        self.threads = settings.threads or _threads_each(models * settings.max_replicas)
        self.handles: dict[str, DeploymentHandle] = {}
        self.in_progress: Counter[str] = Counter()

    async def open(self, model: ServedModel) -> None:
        """Start replicas and wait until each has answered its example."""
        self.handles[_application_name(model)] = await asyncio.to_thread(self._start, model)

    def _start(self, model: ServedModel) -> DeploymentHandle:
        from ray import serve

        from warmstart.deploy.serve.replica import ReplicaConfig, bind_application

        settings, name = self.settings, _application_name(model)
        config = ReplicaConfig(
            path=str(model.path.resolve()),
            seal=model.seal,
            precision=settings.precision,
            engine=settings.engine,
            threads=self.threads,
            batch_size=settings.batch_size,
            wait_seconds=settings.wait_seconds,
        )
        try:
            return serve.run(bind_application(self._options(), config), name=name, route_prefix=None)
        except RuntimeError as error:
            reason = _start_error(serve.status().applications.get(name)) or str(error)
            serve.delete(name)
            raise ModelError(f"{model.path}: no replica could be started: {' '.join(reason.split())[-300:]}") from None

    def _options(self) -> dict[str, object]:
        """Options of a deployment of Ray Serve."""
        settings = self.settings
        options: dict[str, object] = {
            "name": "replica",
            "max_ongoing_requests": max(settings.max_queue, 2 * settings.batch_size),
            "max_queued_requests": settings.max_queue,
            "health_check_period_s": 1,
            "max_constructor_retry_count": 1,
            "graceful_shutdown_timeout_s": 30,
            "ray_actor_options": {"num_cpus": 0 if self.own else 1},
        }
        if settings.min_replicas == settings.max_replicas:
            return {**options, "num_replicas": settings.min_replicas}
        autoscaling = {
            "min_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "target_ongoing_requests": settings.batch_size,
        }
        return {**options, "autoscaling_config": autoscaling}

    async def answer(self, model: ServedModel, rows: Sequence[InputRow]) -> BackendReply:
        """Send rows in chunks, each no more than a batch, and join the replies."""
        chunks = split_rows(rows, self.settings.batch_size)
        async with self._replicas(model) as handle:
            replies: list[ChunkReply] = await asyncio.gather(*(handle.answer.remote(chunk) for chunk in chunks))
        return BackendReply(
            [outcome for reply in replies for outcome in reply.outcomes],
            [reply.batch_size for reply in replies if reply.batch_size],
            sum(reply.tokens_cut for reply in replies),
        )

    async def explain(self, model: ServedModel, row: InputRow) -> BackendReply:
        """Send a row to a replica that explains its answer."""
        async with self._replicas(model) as handle:
            return BackendReply([await handle.explain.remote(row)])

    @asynccontextmanager
    async def _replicas(self, model: ServedModel) -> AsyncIterator[DeploymentHandle]:
        """The replicas of a model, which is not closed meanwhile."""
        from ray.exceptions import RayError
        from ray.serve.exceptions import RayServeException

        name = _application_name(model)
        handle = self.handles.get(name)
        if handle is None:
            raise ModelUnavailable(f"{model.name} is not open")
        self.in_progress[name] += 1
        try:
            yield handle
        except (RayError, RayServeException):
            # A replica died while it was computing; Ray Serve starts another one.
            raise ModelUnavailable(f"{model.name} is restarting") from None
        finally:
            self.in_progress[name] -= 1

    async def close(self, model: ServedModel) -> None:
        """Stop the replicas of one state of a model, once they have answered their requests."""
        from ray import serve

        name = _application_name(model)
        while self.in_progress[name]:
            await asyncio.sleep(0.05)
        self.handles.pop(name, None)
        await asyncio.to_thread(serve.delete, name)

    def stop(self) -> None:
        """Leave nothing behind on a cluster that is not ours."""
        from ray import serve

        for name in () if self.own else tuple(self.handles):
            serve.delete(name)


def _start_error(application: ApplicationStatusOverview | None) -> str:
    """The error with which a replica failed to start, without its traceback."""
    if application is None:
        return ""
    messages = "\n".join(deployment.message for deployment in application.deployments.values())
    errors = re.findall(r"^(?:[\w.]+\.)?(\w*Error): (.+)$", messages, re.MULTILINE)
    return ": ".join(errors[-1]).removeprefix("ModelError: ") if errors else ""


def _application_name(model: ServedModel) -> str:
    return f"{model.name}-{model.version}"


def _threads_each(replicas: int) -> int:
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) else max(1, (os.cpu_count() or 1) // replicas)
