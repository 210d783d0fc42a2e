"""Limits that hold before a request is understood: bytes, seconds, depth and number of JSON values, texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from warmstart.deploy.serve.refusals import Refused
from warmstart.storage.json_files import parse

MEGABYTE = 1 << 20
FORM = '{"texts": [...]}'


@dataclass(frozen=True)
class Limits:
    """How much a request may ask for.

    Attributes:
        body: Bytes of a request's body.
        seconds: That a client may take to send a body, or to fetch an answer.
        depth: Brackets open at once.
        values: JSON values in a body.
        texts: Texts in a request.
        characters: Of a text, with all that belongs to it.
        total: Characters of all texts of a request.
        held: Bytes of bodies that all requests together hold.
    """

    body: int = MEGABYTE
    seconds: float = 10.0
    depth: int = 16
    values: int = 20_000
    texts: int = 256
    characters: int = 100_000
    total: int = 500_000
    held: int = 64 * MEGABYTE


# A string, or the rest of the body where one does not end: so every character is looked at once. The quantifiers are
# possessive, since to go back would only find the same again.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BRACKETS = bytes(one for one in range(256) if one not in b"[]{}")


def check_shape(body: bytes, limits: Limits) -> None:
    """Refuse JSON that is nested too deep or has too many values, by its bytes alone: to parse it is the danger."""
    bare = _STRING.sub(b"", body)
    count = sum(bare.count(one) for one in (b",", b"[", b"{"))
    if count > limits.values:
        raise Refused(413, f"found more than {limits.values:,} JSON values", f"at most {limits.values:,}", "body")
    depth = 0
    for bracket in bare.translate(None, _BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.depth:
            raise Refused(400, f"found more than {limits.depth} brackets open at once", FORM, "body")


def read_texts(body: bytes, limits: Limits) -> list[Any]:
    """The texts in a body, each as `Task.row` is given it."""
    check_shape(body, limits)
    try:
        found = parse(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(400, f"byte {error.start} is not UTF-8", "JSON in UTF-8", "body") from None
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"not JSON that can be used: {error}", FORM, "body") from None
    if not isinstance(found, dict) or set(found) != {"texts"}:
        keys = ", ".join(sorted(map(ascii, found)))[:200] if isinstance(found, dict) else type(found).__name__
        raise Refused(400, f"found {keys or 'an empty object'}", f"{FORM} and nothing beside it", "body")
    texts = found["texts"]
    if not isinstance(texts, list) or not texts:
        raise Refused(400, f"found {ascii(texts)[:80]}", "a list of one text or more", "texts")
    if len(texts) > limits.texts:
        raise Refused(413, f"found {len(texts):,} texts", f"at most {limits.texts:,} in a request", "texts")
    _check_characters(texts, limits)
    return texts


def _check_characters(texts: list[Any], limits: Limits) -> None:
    total = 0
    for index, text in enumerate(texts):
        size = 0
        for string in _strings(text):
            size += len(string)
            if not string.isascii() and _SURROGATE.search(string):
                raise Refused(400, "found half of a surrogate pair, which is no character", "text", f"texts[{index}]")
        if size > limits.characters:
            expected = f"at most {limits.characters:,} in a text"
            raise Refused(413, f"found {size:,} characters", expected, f"texts[{index}]")
        total += size
    if total > limits.total:
        raise Refused(413, f"found {total:,} characters", f"at most {limits.total:,} in a request", "texts")


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value, keys too; the depth was checked before."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
