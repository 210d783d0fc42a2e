"""Refusals: a status, and a message that says what was found in a request and what was expected."""

from __future__ import annotations

from collections.abc import Mapping

from warmstart.storage.json_files import Json, JsonObject

MAX_MESSAGE = 400
"""Characters of a message, which may quote what a client sent."""


class Refusal(Exception):
    """A request that is not answered.

    Args:
        what: What was found.
        expected: What was expected instead.
        where: The place in the request, such as `texts[3]`.
        headers: Headers to send along, such as `Retry-After`.
        more: What the message holds besides, such as the body to send instead.
    """

    def __init__(
        self,
        status: int,
        what: str,
        expected: str = "",
        where: str = "",
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(what)
        self.status, self.what, self.expected, self.where = status, what, expected, where
        self.headers, self.more = dict(headers or {}), dict(more or {})

    @property
    def closes_connection(self) -> bool:
        """Whether the rest of the body is not waited for: the client was too slow already, or cannot be understood."""
        return self.status == 408 or "connection" in self.headers

    def as_json(self) -> JsonObject:
        """The body of the response."""
        message = {"what": _shorten(self.what), "expected": _shorten(self.expected), "where": self.where}
        return {"error": {"status": self.status, **{name: text for name, text in message.items() if text}, **self.more}}


def retry_later(what: str, status: int = 503, seconds: int = 1) -> Refusal:
    """A refusal for the moment: 429 where clients ask for too much, 503 where the server is not available."""
    return Refusal(
        status, what, f"the same request, sent again after {seconds} s", headers={"retry-after": str(seconds)}
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
