"""The index of a checkpoint: a table of blocks of sorted keys and values, each with a checksum, as LevelDB has it.

At the end of the file is a footer, which says where the index block is; that says where the data blocks are. In a
block, a key is stored as what differs from the key before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.models.tensorflow.crc32c import crc32c, unmask
from warmstart.models.tensorflow.wire import read_varint
from warmstart.storage.json_files import MEGABYTE

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5
"""After a block: how it is compressed, and the checksum of it all."""
MAX_BYTES = 256 * MEGABYTE


def read_table(path: Path) -> dict[bytes, bytes]:
    """All keys of a table with their values.

    Raises:
        ModelError: It is no table, or damaged, with the place.
    """
    size = path.stat().st_size
    if not FOOTER <= size <= MAX_BYTES:
        raise ModelError(
            f"{path}: found {size:,} bytes, expected the index of a checkpoint, of {FOOTER} to {MAX_BYTES:,}"
        )
    data = path.read_bytes()
    if int.from_bytes(data[-8:], "little") != MAGIC:
        raise ModelError(
            f"{path}: byte {size - 8}: found no end of a table; it is cut off, or no index of a checkpoint"
        )
    try:
        meta, place = _handle(data, size - FOOTER)
        index, place = _handle(data, place)
        if any(data[place:-8]):
            raise ValueError(f"the footer at byte {place:,} is not empty where it should be")
        _block(data, *meta)  # of no use here, but it must be whole too
        return {
            key: value
            for _, block in _entries(_block(data, *index))
            for key, value in _entries(_block(data, *_handle(block, 0)[0]))
        }
    except ValueError as error:
        raise ModelError(f"{path}: {error}; it is damaged: copy it again from where it came") from None


def _handle(data: bytes, start: int) -> tuple[tuple[int, int], int]:
    """The offset and size of a block, and where the handle ends."""
    offset, start = read_varint(data, start)
    size, start = read_varint(data, start)
    return (offset, size), start


def _block(data: bytes, offset: int, size: int) -> bytes:
    """The contents of a block, whose checksum is right."""
    end = offset + size + TRAILER
    if end > len(data) - FOOTER:
        raise ValueError(f"a block at byte {offset:,} ends at {end:,}, after the blocks do")
    stored = int.from_bytes(data[end - 4 : end], "little")
    if crc32c(data[offset : end - 4]) != unmask(stored):
        raise ValueError(f"the checksum of the block at byte {offset:,} is wrong")
    if data[end - TRAILER]:
        raise ValueError(f"the block at byte {offset:,} is compressed, as TensorFlow's are not")
    return data[offset : offset + size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; after them come places to begin at, which are not needed."""
    if len(block) < 4:
        raise ValueError("a block is too short")
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    place, key = 0, b""
    while place < end:
        shared, place = read_varint(block, place)
        own, place = read_varint(block, place)
        size, place = read_varint(block, place)
        if shared > len(key) or place + own + size > end:
            raise ValueError(f"a key at byte {place} of a block is cut off")
        key = key[:shared] + block[place : place + own]
        yield key, block[place + own : place + own + size]
        place += own + size
