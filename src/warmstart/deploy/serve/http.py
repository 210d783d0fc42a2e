"""One HTTP request and its answer over ASGI, with the limits that hold while a body is read."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from warmstart.deploy.serve.limits import Limits
from warmstart.deploy.serve.refusals import Refused, busy

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Gone(Exception):
    """The client is no longer there."""


@dataclass
class Answer:
    """What is sent back."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200, **headers: str) -> Answer:
        """A JSON value; one that is no number cannot be sent and is a `ValueError`."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return cls(status, text.encode("utf-8"), headers={name.replace("_", "-"): one for name, one in headers.items()})


@dataclass
class Held:
    """Bytes of bodies that are held at present, over all requests."""

    bytes: int = 0


class Request:
    """A request whose body is not read yet."""

    def __init__(self, scope: Message, receive: Receive, limits: Limits, held: Held) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive, self._limits, self._held = receive, limits, held
        self._own = 0
        self._more = True
        given = self.headers.get(b"x-request-id", b"")
        self.id = given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)

    async def read(self) -> bytes:
        """The whole body, within the limits on its bytes and the seconds that it takes."""
        self._check_headers()
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._limits.seconds):
                while self._more:
                    chunk = await self._next()
                    self._hold(len(chunk))
                    chunks.append(chunk)
        except TimeoutError:
            expected = f"all of it within {self._limits.seconds:g} s"
            raise Refused(408, "the body came too slowly", expected, "body", close=True) from None
        return b"".join(chunks)

    async def discard(self) -> bool:
        """Read what is left of a small body and forget it: so the connection can go on. False where it cannot."""
        size = 0
        if self._declared() > 16 * self._limits.body:
            return False
        try:
            async with asyncio.timeout(1.0):
                while self._more and size <= self._limits.body:
                    size += len(await self._next())
        except TimeoutError:
            return False
        return not self._more

    def done(self) -> None:
        """Hold no body any longer."""
        self._held.bytes -= self._own
        self._own = 0

    def _check_headers(self) -> None:
        if self.headers.get(b"content-encoding", b"identity").strip().lower() not in (b"identity", b""):
            raise Refused(415, "found a Content-Encoding", "a body that is not compressed", "headers")
        kind = self.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json":
            raise Refused(415, f"found Content-Type {kind.decode('latin-1')!a}", "application/json", "headers")
        if self._declared() > self._limits.body:
            raise self._too_large()

    def _declared(self) -> int:
        """The bytes that a body is said to have; 0 where it is not said."""
        length = self.headers.get(b"content-length", b"")
        return int(length[:18]) if length.isdigit() else 0

    def _hold(self, count: int) -> None:
        self._own += count
        self._held.bytes += count
        if self._own > self._limits.body:
            raise self._too_large()
        if self._held.bytes > self._limits.held:
            raise busy("too many requests at once", 429)

    def _too_large(self) -> Refused:
        return Refused(413, "the body is too large", f"at most {self._limits.body:,} bytes", "body")

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Gone
        self._more = message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body


async def respond(answer: Answer, request: Request, send: Send, seconds: float) -> None:
    """Send an answer to a client that takes it in time."""
    headers = {
        "content-type": answer.kind,
        "content-length": str(len(answer.body)),
        "x-request-id": request.id,
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        **answer.headers,
        **({"connection": "close"} if answer.close else {}),
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    async with asyncio.timeout(seconds):
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": answer.body})
