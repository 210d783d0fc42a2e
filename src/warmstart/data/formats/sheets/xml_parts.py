"""The XML parts of a spreadsheet, looked through before a library builds anything from them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import IO
from xml.parsers import expat

MAX_TOKEN = 1 << 21
"""Bytes of a tag, a comment or a name: the parser begins a longer one anew with every block, which takes for ever."""
FREE_TAGS, TAGS_PER_BYTE = 1 << 19, 10
"""Tags that any file may have, and those that one of its size may: real ones have about one a byte, compressed."""
_BLOCK = 1 << 16
_XML = (".xml", ".rels")


def check_parts(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse parts with a document type, which could define entities, with endless tags or with tags without number.

    Every part is looked at, not only those that are XML by their names, since a spreadsheet says itself where it has
    what; a picture is left at its first bytes. The parser decides what a document type is, in every encoding.

    Args:
        size: How many bytes the whole file has.

    Raises:
        ValueError: What is wrong with which part.
    """
    tags = 0
    for part in archive.infolist():
        try:
            with archive.open(part) as content:
                for number in _count_tags(content):
                    tags += number
                    if tags > max(FREE_TAGS, TAGS_PER_BYTE * size):
                        raise _RefusedError("has more tags than so small a file can hold")
        except expat.ExpatError as error:
            if part.filename.endswith(_XML):
                raise ValueError(f"{part.filename}: {error}") from None
        except _RefusedError as refusal:
            raise ValueError(f"{part.filename} {refusal}") from None


class _RefusedError(Exception):
    """What no spreadsheet has."""


def _count_tags(content: IO[bytes]) -> Iterator[int]:
    """Yield the number of tags in each block, about."""
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise _RefusedError("has a document type")

    def forget(*_: object) -> None:  # a document type comes before the first element; the rest is parsed faster without
        parser.StartDoctypeDeclHandler = parser.StartElementHandler = None

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = refuse, forget
    size = 0
    for block in blocks(content):
        size += len(block)
        parser.Parse(block, False)
        if size - parser.CurrentByteIndex > MAX_TOKEN:
            raise _RefusedError(f"has a tag of more than {MAX_TOKEN >> 20} MB")
        yield block.count(b"<")
    parser.Parse(b"", True)


def blocks(content: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a part, some at a time."""
    while block := content.read(_BLOCK):
        yield block
