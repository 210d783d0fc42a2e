"""Reading the body of a request within limits on its size and on the time that it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from warmstart.deploy.serve.corrections import FORM_TYPE
from warmstart.deploy.serve.limits import Limits
from warmstart.deploy.serve.refusals import Refusal, retry_later

DISCARD_SECONDS = 1.0
"""How long the rest of a refused body is read, so that the connection can be kept."""


@dataclass
class BodyMemory:
    """Bytes of request bodies that are in memory at present, over all requests."""

    bytes: int = 0


class RequestBody:
    """The body of one request, not read yet.

    Starlette's own `Request.body` has no limits, and its stream cannot say whether a refused body has ended.
    """

    def __init__(
        self, headers: Mapping[bytes, bytes], receive: Receive, limits: Limits, shared_memory: BodyMemory
    ) -> None:
        self._headers, self._receive, self._limits = headers, receive, limits
        self._shared_memory = shared_memory
        self._bytes_held = 0
        self._more = True

    @property
    def media_type(self) -> bytes:
        """What the headers say that the body is."""
        return self._headers.get(b"content-type", b"").split(b";")[0].strip().lower()

    async def read(self) -> bytes:
        """The whole body; a `Refusal` where it is too large or too slow, or neither JSON nor a form by its headers."""
        self._check_headers()
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._limits.seconds):
                while self._more:
                    chunk = await self._next_chunk()
                    self._hold(len(chunk))
                    chunks.append(chunk)
        except TimeoutError:
            expected = f"all of it within {self._limits.seconds:g} s"
            raise Refusal(408, "the body arrived too slowly", expected, "body") from None
        return b"".join(chunks)

    async def discard(self) -> bool:
        """Read the rest of a small body and drop it, so that the connection can be kept; False where it cannot."""
        size = 0
        if self._declared_bytes() > 16 * self._limits.body_bytes:
            return False
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while self._more and size <= self._limits.body_bytes:
                    size += len(await self._next_chunk())
        except TimeoutError:
            return False
        return not self._more

    def release(self) -> None:
        """No longer count the body among those in memory."""
        self._shared_memory.bytes -= self._bytes_held
        self._bytes_held = 0

    def _check_headers(self) -> None:
        if self._headers.get(b"content-encoding", b"identity").strip().lower() not in (b"identity", b""):
            raise Refusal(415, "found a Content-Encoding", "a body that is not compressed", "headers")
        if self.media_type not in (b"application/json", FORM_TYPE):
            what = f"found Content-Type {self.media_type.decode('latin-1')!a}"
            raise Refusal(415, what, "application/json", "headers")
        if self._declared_bytes() > self._limits.body_bytes:
            raise self._too_large()

    def _declared_bytes(self) -> int:
        """The size that Content-Length declares; 0 without one."""
        length = self._headers.get(b"content-length", b"")
        return int(length[:18]) if length.isdigit() else 0

    def _hold(self, count: int) -> None:
        self._bytes_held += count
        self._shared_memory.bytes += count
        if self._bytes_held > self._limits.body_bytes:
            raise self._too_large()
        if self._shared_memory.bytes > self._limits.held_bytes:
            raise retry_later("too many requests at once", 429)

    def _too_large(self) -> Refusal:
        return Refusal(413, "the body is too large", f"at most {self._limits.body_bytes:,} bytes", "body")

    async def _next_chunk(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._more = message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        return chunk
