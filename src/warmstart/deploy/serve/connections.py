"""Connections of a server: how many there are, how long they wait for their clients, and what is not yet fetched."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from warmstart.errors import RecipeError

MAX_CONNECTIONS = 1024
IDLE_SECONDS = 15.0
"""How long a connection may take to begin its next request, headers included, or to fetch the last response."""
MAX_UNSENT_BYTES = 64 << 20
"""Bytes of responses that clients have not fetched, over all connections."""
RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: what was not fetched is dropped when the socket is closed."""
ABORT = "abort"
"""Where the state of a request (`scope["state"]`) holds what aborts its connection."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, made first, so that a port in use is reported before models are opened."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        raise RecipeError(
            f"--host {host} --port {port}: {error.strerror}; choose others, or stop what is listening there"
        ) from None


class BoundedH11Protocol(H11Protocol):  # type: ignore[misc]
    """HTTP/1.1 by h11, which limits the bytes of headers; here their time is limited too, and the connections.

    uvicorn's other parser, httptools, limits neither bytes nor time, and uvicorn's own timer restarts with every byte.
    Closing a connection waits until the client has fetched everything; so one that does not read is aborted.

    Attributes:
        idle_since: When the connection began to wait for a request; None while one is answered.
        stalled_since: When the client's buffers were full; None while it reads.
    """

    idle_since: float | None = None
    stalled_since: float | None = None
    _idle_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app_state: dict[str, Any] = {**self.app_state, ABORT: self.abort}

    def abort(self) -> None:
        """End the connection at once, whatever is still to be sent."""
        self.connections.discard(self)  # now, and not when the event loop comes to it: it counts no longer
        if (sock := self.transport.get_extra_info("socket")) is not None:  # the kernel's buffers are freed as well
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._start_idle_timer()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_idle_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        previous_cycle = self.cycle
        try:
            super().data_received(data)
        except LocalProtocolError:  # not HTTP, after a response has begun
            self.abort()
        if self.cycle is not previous_cycle:
            self._cancel_idle_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # otherwise a pipelined request has begun
            self._start_idle_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalled_since = self.loop.time()
        self._bound_unsent()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stalled_since = None

    def _make_room(self) -> None:
        """Abort the connection whose client has kept it waiting longest: one that does not read, else an idle one.

        A server that only refused the newest would be shut by those that open connections and never use them.
        """
        longest = min(self.connections, key=_patience)
        (self if longest.stalled_since is None and longest.idle_since is None else longest).abort()

    def _bound_unsent(self) -> None:
        """Abort those that have not read for longest, until what the others have not fetched fits in memory."""
        stalled = sorted(
            (one for one in self.connections if one.stalled_since is not None), key=lambda one: one.stalled_since
        )
        sizes = [one.transport.get_write_buffer_size() for one in stalled]
        excess = sum(sizes) - MAX_UNSENT_BYTES
        for one, size in zip(stalled, sizes, strict=True):
            if excess <= 0:
                return
            one.abort()
            excess -= size

    def _start_idle_timer(self) -> None:
        """Abort the connection unless the next request begins in time."""
        self._cancel_idle_timer()
        self.idle_since = self.loop.time()
        self._idle_timer = self.loop.call_later(IDLE_SECONDS, self.abort)

    def _cancel_idle_timer(self) -> None:
        self.idle_since = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


def _patience(connection: BoundedH11Protocol) -> tuple[int, float]:
    """Smallest for the connection to end first: one stalled for longest, then one idle for longest, then the others."""
    if connection.stalled_since is not None:
        return 0, connection.stalled_since
    return (2, 0.0) if connection.idle_since is None else (1, connection.idle_since)
