"""Clients of a server over bare sockets, quick enough to ask for more than it has: one request at a time on each."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

CLOSED = 0
"""The status of a request that got no answer: the connection was closed."""
NOT_SENT = "no connection was free"
"""What stands for the status of a request that was not sent: all connections waited for an answer."""
Reply = tuple[int, bytes]


def post(body: bytes, path: str = "/v1/predict", headers: str = "") -> bytes:
    """A request for answers, as bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body


def texts(*given: str) -> bytes:
    """A well-formed request."""
    return post(json.dumps({"texts": list(given)}).encode())


class Connection:
    """A connection that is opened again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, raw: bytes, seconds: float = 120.0) -> Reply:
        """Send bytes and wait for the answer to them."""
        if self.reader is not None and self.reader.at_eof():
            self.close()  # the server closes what was idle for some seconds, as it may
        try:
            async with asyncio.timeout(seconds):
                if self.writer is None:
                    self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
                self.writer.write(raw)
                await self.writer.drain()
                return await self._read()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            # What was refused while it was still being sent may be told all the same.
            found = await self._rest()
            self.close()
            return found

    async def _read(self) -> Reply:
        assert self.reader is not None
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, lines = int(head[9:12]), head.lower().split(b"\r\n")
        size = next((int(one[15:]) for one in lines if one.startswith(b"content-length:")), None)
        body = await (self.reader.read() if size is None else self.reader.readexactly(size))
        if b"connection: close" in lines or size is None:
            self.close()
        return status, body

    async def _rest(self) -> Reply:
        try:
            async with asyncio.timeout(2):
                return await self._read()
        except (OSError, AssertionError, ValueError, asyncio.IncompleteReadError, TimeoutError):
            return CLOSED, b""

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def closed_loop(
    port: int,
    clients: int,
    requests: Iterator[bytes],
    told: Callable[[bytes, int, bytes, float], None],
    pause: float = 0.0,
) -> None:
    """Several clients, each with its next request when it has the answer to the last, until none is left.

    Args:
        pause: Seconds that a client waits after it was told to come again.
    """

    async def one() -> None:
        connection = Connection(port)
        for raw in requests:
            started = time.perf_counter()
            status, body = await connection.ask(raw)
            told(raw, status, body, time.perf_counter() - started)
            if status in (429, 503):
                await asyncio.sleep(pause)
        connection.close()

    await asyncio.gather(*(one() for _ in range(clients)))


async def open_loop(port: int, rate: float, seconds: float, raw: bytes, connections: int) -> Counter[Any]:
    """A request whenever its time has come, whether or not others are answered; how often each status or `NOT_SENT`."""
    # By turns, so that none is idle until the server closes it, just as the next request is sent.
    free = deque(Connection(port) for _ in range(connections))
    found: Counter[Any] = Counter()
    under_way: set[asyncio.Task[None]] = set()

    async def one(connection: Connection) -> None:
        status, _ = await connection.ask(raw)
        found[status] += 1
        free.append(connection)

    started = time.perf_counter()
    sent = 0
    while (now := time.perf_counter() - started) < seconds:
        while sent < now * rate:
            sent += 1
            if not free:
                found[NOT_SENT] += 1
                continue
            task = asyncio.create_task(one(free.popleft()))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.sleep(0.002)
    await asyncio.gather(*under_way)
    for connection in free:
        connection.close()
    return found


def quantile(values: list[float], share: float) -> float:
    """The value that this share of all is below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
