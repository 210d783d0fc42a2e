"""Limits that hold before a request is understood: bytes, seconds, depth and number of JSON values, texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from warmstart.deploy.serve.corrections import intended_texts, proposed_body
from warmstart.deploy.serve.refusals import Refusal
from warmstart.storage.json_files import Json, parse_json

MEGABYTE = 1 << 20
MAX_HEADER_BYTES = 16 * 1024
"""Bytes of a request line and its headers."""
FORM = '{"texts": [...]}'


@dataclass(frozen=True)
class Limits:
    """How much a request may ask for.

    Attributes:
        body_bytes: Size of a request body.
        seconds: Time a client may take to send a body, or to fetch a response.
        depth: JSON brackets open at once.
        values: JSON values in a body.
        texts: Texts in a request.
        characters: Characters of a text, including everything that belongs to it.
        total_characters: Characters of all texts in a request.
        held_bytes: Size of all bodies that are in memory at once.
        explained_characters: Characters of a text that is to be explained, which takes a prediction for each word.
    """

    body_bytes: int = MEGABYTE
    seconds: float = 10.0
    depth: int = 16
    values: int = 20_000
    texts: int = 256
    characters: int = 100_000
    total_characters: int = 500_000
    held_bytes: int = 64 * MEGABYTE
    explained_characters: int = 2_000

    @property
    def for_explaining(self) -> Limits:
        """The limits of a request for an explanation: one short text."""
        return replace(self, texts=1, characters=self.explained_characters)


# A string, or the rest of the body where a string does not end, so that every character is scanned once. The
# quantifiers are possessive because backtracking would only find the same match again.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def check_shape(body: bytes, limits: Limits) -> None:
    """Refuse JSON that is nested too deep or has too many values, from its bytes alone: parsing it is the danger."""
    structure = _STRING.sub(b"", body)
    count = sum(structure.count(mark) for mark in (b",", b"[", b"{"))
    if count > limits.values:
        raise Refusal(413, f"found more than {limits.values:,} JSON values", f"at most {limits.values:,}", "body")
    depth = 0
    for bracket in structure.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.depth:
            raise Refusal(400, f"found more than {limits.depth} brackets open at once", FORM, "body")


def read_texts(body: bytes, limits: Limits) -> list[Json]:
    """The texts in a body, each still in the form that the client sent."""
    check_shape(body, limits)
    try:
        value: Json = parse_json(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refusal(400, f"byte {error.start} is not UTF-8", "JSON in UTF-8", "body") from None
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"not JSON that can be used: {error}", FORM, "body") from None
    if not isinstance(value, dict) or set(value) != {"texts"}:
        keys = ", ".join(sorted(map(ascii, value)))[:200] if isinstance(value, dict) else _kind(value)
        raise _wrong_form(value, f"found {keys or 'an empty object'}", f"{FORM} and nothing else", "body")
    texts = value["texts"]
    if not isinstance(texts, list) or not texts:
        raise _wrong_form(value, f"found {ascii(texts)[:80]}", "a list of one or more texts", "texts")
    if len(texts) > limits.texts:
        raise Refusal(413, f"found {len(texts):,} texts", f"at most {limits.texts:,} in a request", "texts")
    _check_characters(texts, limits)
    return texts


def _wrong_form(value: Json, what: str, expected: str, where: str) -> Refusal:
    """The refusal of JSON in another form, with the body to send where it shows what the texts are."""
    texts = intended_texts(value)
    if texts is None:
        return Refusal(400, what, expected, where)
    if where == "body":
        expected = f"did you mean `texts`? {expected}"
    return Refusal(400, what, expected, where, more={"send": proposed_body(texts)})


def _kind(value: Json) -> str:
    """What a JSON value is, in JSON's own words."""
    kinds = {str: "a string", list: "an array", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _check_characters(texts: list[Json], limits: Limits) -> None:
    total = 0
    for index, text in enumerate(texts):
        size = 0
        for string in _strings(text):
            size += len(string)
            if not string.isascii() and _SURROGATE.search(string):
                raise Refusal(
                    400, "found half of a surrogate pair, which is not a character", "text", f"texts[{index}]"
                )
        if size > limits.characters:
            expected = f"at most {limits.characters:,} in a text"
            raise Refusal(413, f"found {size:,} characters", expected, f"texts[{index}]")
        total += size
    if total > limits.total_characters:
        expected = f"at most {limits.total_characters:,} in a request"
        raise Refusal(413, f"found {total:,} characters", expected, "texts")


def _strings(value: Json) -> Iterator[str]:
    """All strings in a JSON value, keys included; its depth has been checked."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
