"""The parts of two binary formats that a checkpoint's index is made of: varints, and fields of protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator

MAX_VARINT = 10
"""The most bytes of a number."""


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends.

    Raises:
        ValueError: The bytes end within it, or it is longer than any.
    """
    value = 0
    for place, byte in enumerate(data[start : start + MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, start + place + 1
    raise ValueError(f"a number at byte {start} has no end")


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer, each by its number: numbers as such, everything else as bytes.

    Raises:
        ValueError: It is not one.
    """
    place = 0
    while place < len(message):
        key, place = read_varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = read_varint(message, place)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = read_varint(message, place)
        if size is None or place + size > len(message):
            raise ValueError(f"field {number} at byte {place} is cut off, or of an unknown kind")
        content = message[place : place + size]
        yield number, content if kind == 2 else int.from_bytes(content, "little")
        place += size


def whole(value: int | bytes) -> int:
    """A field that must be a number, as a signed one of 64 bits."""
    if not isinstance(value, int):
        raise ValueError(f"found {len(value)} bytes, expected a number")
    return value - (1 << 64) if value >= 1 << 63 else value


def content(value: int | bytes) -> bytes:
    """A field that must be bytes."""
    if not isinstance(value, bytes):
        raise ValueError(f"found the number {value}, expected bytes")
    return value
