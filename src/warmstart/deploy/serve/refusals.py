"""What a request is told that gets no answers: a status, and in words what was found and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 400
"""Characters of a message; it may quote what a client sent."""


class Refused(Exception):
    """A request that is not answered.

    Args:
        where: The place in the request, as `texts[3]`.
        headers: Sent along, as `Retry-After`.
        close: The connection ends with this answer.
    """

    def __init__(
        self,
        status: int,
        what: str,
        expected: str = "",
        where: str = "",
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(what)
        self.status, self.what, self.expected, self.where = status, what, expected, where
        self.headers = dict(headers or {})
        self.close = close

    def as_json(self) -> dict[str, Any]:
        """The body of the answer."""
        said = {"what": _short(self.what), "expected": _short(self.expected), "where": self.where}
        return {"error": {"status": self.status, **{name: text for name, text in said.items() if text}}}


def busy(what: str, status: int = 503, seconds: int = 1) -> Refused:
    """A refusal that holds for the moment only: 429 where the client sends too much, 503 where the server is away."""
    return Refused(status, what, f"the same request again after {seconds} s", headers={"retry-after": str(seconds)})


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
