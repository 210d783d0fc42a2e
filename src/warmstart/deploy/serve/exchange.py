"""One request and its response: the body within limits, the headers of every response, and the line in the log."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from warmstart.deploy.serve.connections import ABORT
from warmstart.deploy.serve.limits import MAX_HEADER_BYTES, Limits
from warmstart.deploy.serve.refusals import Refusal
from warmstart.deploy.serve.request_body import BodyMemory, RequestBody

CLIENT_CLOSED_REQUEST = 499
"""The status in logs and metrics where the client went away, as nginx has it; it is never sent."""
COMMON_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
CLOSE = (b"connection", b"close")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


@dataclass
class LogEntry:
    """What the log says about a request; never a text or a token.

    Attributes:
        id: The client's `X-Request-Id`, or one drawn at random.
        fault: The class of an exception that should not have happened; its message may quote a client's text.
        gone: Whether the client went away.
    """

    id: str
    model: str = ""
    texts: int = 0
    characters: int = 0
    fault: str = ""
    gone: bool = False

    def as_json(self) -> dict[str, object]:
        """The entry as keys and values; `fault` and `gone` only where there is something to say."""
        values: dict[str, object] = {
            "id": self.id,
            "model": self.model,
            "texts": self.texts,
            "characters": self.characters,
        }
        if self.fault:
            values["fault"] = self.fault
        if self.gone:
            values["gone"] = True
        return values


class Exchange:
    """A request and its response, as ASGI has them.

    Endpoints find it at `request.state.exchange`.

    Attributes:
        headers: Of the request, in lower case; of a repeated header, the last one.
        status: Of the response; 0 until it has begun.
        scope, receive, send: To hand to Starlette. What is sent gets the headers of every response, and the connection
            of a client that does not fetch its response in time is aborted (`ClientDisconnect`).
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits, memory: BodyMemory) -> None:
        self.path: str = scope["path"]
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.body = RequestBody(self.headers, receive, limits, memory)
        given_id = self.headers.get(b"x-request-id", b"")
        self.entry = LogEntry(given_id.decode() if _REQUEST_ID.fullmatch(given_id) else secrets.token_hex(8))
        self.status = 0
        self.receive = receive
        self._send, self._seconds_to_send = send, limits.seconds
        self._start: Message | None = None
        self._abort: Callable[[], None] = scope.get("state", {}).get(ABORT, lambda: None)
        self.scope: Scope = {**scope, "state": {"exchange": self}}

    def check_framing(self) -> None:
        """Refuse what another server in front may read differently, and headers that are too large.

        h11 limits headers that come in parts. Where two lengths are given for one body (RFC 9112, 6.1 and 6.3), the
        rest of the connection may be a request that somebody hid behind it.
        """
        if b"transfer-encoding" in self.headers:
            if b"content-length" in self.headers:
                raise _faulty(400, "found Content-Length and Transfer-Encoding", "one of them")
            if self.scope.get("http_version") == "1.0":
                raise _faulty(400, "found Transfer-Encoding in HTTP/1.0", "HTTP/1.1")
        line = len(self.method) + len(self.scope.get("raw_path", b"")) + len(self.scope.get("query_string", b""))
        size = line + sum(len(name) + len(value) + 4 for name, value in self.scope["headers"])
        if size > MAX_HEADER_BYTES:
            raise _faulty(431, f"found headers of {size:,} bytes", f"at most {MAX_HEADER_BYTES:,} bytes")

    async def send(self, message: Message) -> None:
        """Pass a message of the response on to the client; its start goes with the first part of its body."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self.entry.id.encode()), *COMMON_HEADERS]
            if self.scope["app"].draining and CLOSE not in headers:
                headers.append(CLOSE)  # so that the client's next request goes to another server
            self.body.release()
            self._start = {**message, "headers": headers}
            return
        messages = [message] if self._start is None else [self._start, message]
        self._start = None
        try:
            async with asyncio.timeout(self._seconds_to_send):
                for part in messages:
                    await self._send(part)
        except TimeoutError:
            self._abort()  # otherwise uvicorn would go on waiting for this client, and then send it a 500
            raise ClientDisconnect from None

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal; the connection is kept where the rest of the body comes soon."""
        keep = not refusal.closes_connection and await self.body.discard()
        headers = refusal.headers if keep else {**refusal.headers, "connection": "close"}
        # A message may quote half of a surrogate pair, which UTF-8 cannot encode, but JSON can: as `\ud800`.
        body = json.dumps(refusal.as_json(), ensure_ascii=False).encode("utf-8", "backslashreplace")
        response = Response(body, refusal.status, headers, "application/json")
        await response(self.scope, self.receive, self.send)


def _faulty(status: int, what: str, expected: str) -> Refusal:
    """A refusal after which nothing more is read from the connection."""
    return Refusal(status, what, expected, "headers", {"connection": "close"})
