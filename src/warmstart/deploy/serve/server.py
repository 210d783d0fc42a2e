"""The process of a server: sockets, signals, and models that come and go while it answers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from warmstart.deploy.serve.app import ServingApp
from warmstart.deploy.serve.backend import Backend, ModelUnavailable
from warmstart.deploy.serve.connections import IDLE_SECONDS, BoundedH11Protocol
from warmstart.deploy.serve.limits import MAX_HEADER_BYTES
from warmstart.deploy.serve.named_runs import seal_of
from warmstart.deploy.serve.served_models import ServedModel
from warmstart.errors import WarmstartError

DRAIN_SECONDS = 30.0
"""How long requests in progress may take once the server is asked to stop."""
PROBE_INTERVAL, PROBE_TIMEOUT = 0.1, 5.0
"""Seconds between two probes of a model that became unavailable, and for its answer."""


class _SignalFreeServer(uvicorn.Server):  # type: ignore[misc]
    """A uvicorn that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_config(app: ServingApp) -> uvicorn.Config:
    """How uvicorn takes connections."""
    return uvicorn.Config(
        app,
        http=BoundedH11Protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=int(DRAIN_SECONDS),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


def run(app: ServingApp, backend: Backend, sock: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until a signal asks to stop.

    Args:
        on_ready: Called once every model answers.
    """
    config = server_config(app)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_Lifecycle(app, backend, _SignalFreeServer(config)).run(sock, on_ready))


class _Lifecycle:
    """A server from its first connection to its last."""

    def __init__(self, app: ServingApp, backend: Backend, server: _SignalFreeServer) -> None:
        self.app, self.backend, self.server = app, backend, server
        self.stop, self.reload = asyncio.Event(), asyncio.Event()

    async def run(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for number, event in ((signal.SIGTERM, self.stop), (signal.SIGINT, self.stop), (signal.SIGHUP, self.reload)):
            loop.add_signal_handler(number, event.set)
        serving = asyncio.create_task(self.server.serve(sockets=[sock]))
        tasks: list[asyncio.Task[None]] = []
        try:
            for model in self.app.models.values():
                await self.backend.open(model)
                self.app.ready.add(model.name)
            on_ready()
            jobs = (self._wait_for_stop(), self._probe_unavailable(), self._reload_on_request())
            tasks = [asyncio.create_task(job) for job in jobs]
            await asyncio.wait([serving, tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._drain()
            for task in tasks:
                task.cancel()
            self.server.should_exit = True
            await serving

    async def _wait_for_stop(self) -> None:
        await self.stop.wait()

    async def _drain(self) -> None:
        """Take no more requests, and let those in progress end."""
        self.app.draining = True
        self.app.log({"event": "draining", "texts": sum(self.app.in_progress.values())})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while any(self.app.in_progress.values()):
                    await asyncio.sleep(0.02)

    async def _probe_unavailable(self) -> None:
        """Find out when a model that became unavailable answers again."""
        while True:
            await asyncio.sleep(PROBE_INTERVAL)
            for model in list(self.app.models.values()):
                if model.name not in self.app.ready:
                    await self._probe(model)

    async def _probe(self, model: ServedModel) -> None:
        try:
            if await asyncio.to_thread(seal_of, model.path) != model.seal:
                self.reload.set()  # no replica starts from a folder that has changed, so its new state takes over
            async with asyncio.timeout(PROBE_TIMEOUT):
                await self.backend.answer(model, model.rows([model.task.example]))
        except (ModelUnavailable, TimeoutError, WarmstartError, OSError):
            return
        self.app.ready.add(model.name)
        self.app.log({"event": "ready again", "model": model.name})

    async def _reload_on_request(self) -> None:
        """Whenever SIGHUP asks, replace models whose folder has changed."""
        while True:
            await self.reload.wait()
            self.reload.clear()
            for model in list(self.app.models.values()):
                try:
                    await self._replace(model)
                except Exception as error:  # whatever it is, the old state goes on answering
                    reason = str(error) if isinstance(error, WarmstartError | OSError) else type(error).__name__
                    self.app.log({"event": "swap refused", "model": model.name, "reason": reason})

    async def _replace(self, model: ServedModel) -> None:
        if seal_of(model.path) == model.seal:
            self.app.log({"event": "unchanged", "model": model.name})
            return
        replacement = await asyncio.to_thread(ServedModel.open, model.name, model.path)
        await self.backend.open(replacement)
        self.app.models[model.name] = replacement
        self.app.ready.add(model.name)
        self.app.log({"event": "swapped", "model": model.name, "version": replacement.version})
        await self.backend.close(model)
