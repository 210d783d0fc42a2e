"""The process of a server: sockets, signals, and models that come and go while it answers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from warmstart.deploy.serve.app import App
from warmstart.deploy.serve.backend import Away, Backend
from warmstart.deploy.serve.models import Served, seal_of
from warmstart.errors import RecipeError, WarmstartError

CONNECTIONS = 1024
HEADERS = 16 * 1024
"""Bytes of a request line and its headers."""
DRAIN = 30.0
"""Seconds that requests under way have to end when the server is asked to."""
PROBE, AGAIN = 0.1, 5.0
"""Seconds between two looks at a model that went away, and for its answer."""
PATIENCE = 15.0
"""Seconds until the next request of a connection must have begun."""


class Protocol(H11Protocol):  # type: ignore[misc]
    """HTTP/1.1 by h11, whose headers are bounded in bytes; here in time as well, and connections in number.

    uvicorn's other parser, httptools, bounds neither; and uvicorn's own timer begins anew with every byte.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.abort()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        try:
            super().data_received(data)
        except LocalProtocolError:  # what is no HTTP, after an answer has begun
            self.transport.abort()
        if self.cycle is not before:
            self._forget_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # else a request that was sent ahead has begun
            self._await_request()

    def _await_request(self) -> None:
        """Close the connection unless the next request begins in time."""
        self._forget_deadline()
        self._deadline = self.loop.call_later(PATIENCE, self.transport.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):  # type: ignore[misc]
    """A uvicorn that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket of our own, so that a port that is taken is told before models are opened."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        raise RecipeError(
            f"--host {host} --port {port}: {error.strerror}; choose others, or end what is there"
        ) from None


def run(app: App, backend: Backend, sock: socket.socket, told: Callable[[], None]) -> None:
    """Serve until a signal asks to stop.

    Args:
        told: Called when every model answers.
    """
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(PATIENCE),
        timeout_graceful_shutdown=int(DRAIN),
        h11_max_incomplete_event_size=HEADERS,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_Life(app, backend, _Server(config)).whole(sock, told))


class _Life:
    """From the first connection to the last."""

    def __init__(self, app: App, backend: Backend, server: _Server) -> None:
        self.app, self.backend, self.server = app, backend, server
        self.stop, self.reread = asyncio.Event(), asyncio.Event()

    async def whole(self, sock: socket.socket, told: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for number, event in ((signal.SIGTERM, self.stop), (signal.SIGINT, self.stop), (signal.SIGHUP, self.reread)):
            loop.add_signal_handler(number, event.set)
        serving = asyncio.create_task(self.server.serve(sockets=[sock]))
        tasks: list[asyncio.Task[None]] = []
        try:
            for model in self.app.models.values():
                await self.backend.open(model)
                self.app.ready.add(model.name)
            told()
            tasks = [asyncio.create_task(one) for one in (self._stopped(), self._probe(), self._swap())]
            await asyncio.wait([serving, tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._drain()
            for task in tasks:
                task.cancel()
            self.server.should_exit = True
            await serving

    async def _stopped(self) -> None:
        await self.stop.wait()

    async def _drain(self) -> None:
        """Take nothing new, and let what is under way end."""
        self.app.draining = True
        self.app.log({"event": "draining", "texts": sum(self.app.under_way.values())})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                while any(self.app.under_way.values()):
                    await asyncio.sleep(0.02)

    async def _probe(self) -> None:
        """Find out when a model that went away answers again."""
        while True:
            await asyncio.sleep(PROBE)
            for model in list(self.app.models.values()):
                if model.name not in self.app.ready:
                    await self._ask_again(model)

    async def _ask_again(self, model: Served) -> None:
        try:
            if await asyncio.to_thread(seal_of, model.path) != model.seal:
                self.reread.set()  # no replica starts from a folder that has changed: what is there takes over
            async with asyncio.timeout(AGAIN):
                await self.backend.answer(model, model.rows([model.task.example]))
        except (Away, TimeoutError, WarmstartError, OSError):
            return
        self.app.ready.add(model.name)
        self.app.log({"event": "ready again", "model": model.name})

    async def _swap(self) -> None:
        """Whenever SIGHUP asks, put new states of models into the place of old ones."""
        while True:
            await self.reread.wait()
            self.reread.clear()
            for model in list(self.app.models.values()):
                try:
                    await self._renew(model)
                except Exception as error:  # whatever it is, the old state goes on answering
                    reason = str(error) if isinstance(error, WarmstartError | OSError) else type(error).__name__
                    self.app.log({"event": "swap refused", "model": model.name, "reason": reason})

    async def _renew(self, model: Served) -> None:
        if seal_of(model.path) == model.seal:
            self.app.log({"event": "unchanged", "model": model.name})
            return
        new = await asyncio.to_thread(Served.open, model.name, model.path)
        await self.backend.open(new)
        self.app.models[model.name] = new
        self.app.ready.add(model.name)
        self.app.log({"event": "swapped", "model": model.name, "version": new.seal[:12]})
        await self.backend.close(model)
