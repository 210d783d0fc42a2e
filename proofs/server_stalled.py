"""Clients that mean no good by how they read and frame: some never read, some read slowly, some smuggle requests."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
PAGE = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
HIDDEN = b"/smuggled"
"""A path that only the request behind a malformed one asks for."""
BEHIND = b"GET " + HIDDEN + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"
BODY = b'{"texts": ["good"]}'
HEAD = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = b"content-length: %d\r\n" % len(BODY)
TRICKS = (
    LENGTH + b"transfer-encoding: chunked\r\n\r\n" + CHUNKED,
    b"transfer-encoding: chunked\r\n" + LENGTH + b"\r\n" + CHUNKED,
    b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    LENGTH + b"content-length: 4\r\n\r\n" + BODY,
    b"content-length: 4, %d\r\n\r\n" % len(BODY) + BODY,
    b"content-length: +%d\r\n\r\n" % len(BODY) + BODY,
    b"content-length: -1\r\n\r\n" + BODY,
    b"content-length: 0x13\r\n\r\n" + BODY,
    b"content-length: 1_9\r\n\r\n" + BODY,
    b"transfer-encoding : chunked\r\n" + LENGTH + b"\r\n" + CHUNKED,
    b"transfer-encoding: xchunked\r\n\r\n" + CHUNKED,
    b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNKED,
    b"transfer-encoding: identity, chunked\r\n\r\n" + CHUNKED,
    b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n" + CHUNKED,
    b"transfer-encoding:\x0bchunked\r\n" + LENGTH + b"\r\n" + CHUNKED,
    b"x: y\r\n transfer-encoding: chunked\r\n" + LENGTH + b"content-length: 3\r\n\r\n" + BODY,
    b"transfer-encoding: chunked\r\n\r\n-1\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"transfer-encoding: chunked\r\n\r\n0x13\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"transfer-encoding: chunked\r\n\r\n13\r\n" + BODY + b"xx0\r\n\r\n",
)
"""The headers and bodies of requests about whose end two parsers could disagree."""


def never_read(port: int, clients: int, seconds: float, told: Any) -> None:
    """In a process of its own: hold so many connections that ask and never read; those that are ended come again.

    A hundred a second come, more than the server's patience leaves room for. One in fifty asks for more than the
    buffers between it and the server hold. Gives how many were held at once, and how many opened.
    """
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * clients + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held: dict[int, socket.socket] = {}
    poll = select.poll()
    opened, most, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(min(5, clients - len(held))):
            with suppress(OSError):
                client = _connected(port)
                opened += 1
                held[client.fileno()] = client
                poll.register(client.fileno(), select.POLLHUP | select.POLLERR)
                client.send(PAGE * 16 if opened % 50 == 0 else HEALTH)
        for number, _ in poll.poll(0):
            poll.unregister(number)
            held.pop(number).close()
        most = max(most, len(held))
        time.sleep(0.05)
    told.put((most, opened))


def read_slowly(port: int, clients: int, seconds: float, told: Any) -> None:
    """In a process of its own: connections that ask for much and read 200 bytes of it a second; counts statuses."""
    os.nice(19)
    readers: list[socket.socket | None] = [None] * clients
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number, client in enumerate(readers):
            try:
                if client is None:
                    client = readers[number] = _connected(port)
                    client.send(PAGE * 16)
                data = client.recv(200)
                if data.startswith(b"HTTP/1.1 "):
                    statuses[int(data[9:12])] += 1
                if not data:
                    raise ConnectionError
            except BlockingIOError:
                continue
            except OSError:
                if client is not None:
                    client.close()
                readers[number] = None
        time.sleep(1)
    told.put(statuses)


def _connected(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


def smuggling(seed: int, count: int) -> Iterator[bytes]:
    """Requests of unclear length, each with another behind it that nobody may answer."""
    random = Random(seed)
    for _ in range(count):
        spaces = b"" if random.random() < 0.5 else b"x-more: " + b"a" * random.randrange(200) + b"\r\n"
        yield HEAD + spaces + random.choice(TRICKS) + BEHIND * random.randrange(1, 4)


def smuggle(port: int, requests: Iterator[bytes], told: Any) -> None:
    """In a process of its own: send them; gives the statuses, and how often what was behind one was answered."""
    os.nice(19)
    statuses: Counter[int] = Counter()
    answered = 0
    for raw in requests:
        heard = b""
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                heard += part
        lines = [line for line in heard.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        statuses.update(int(line[9:12]) for line in lines)
        answered += len(lines) > 1 or HIDDEN in heard
    told.put((statuses, answered))
