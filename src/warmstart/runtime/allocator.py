"""How the C library's allocator treats large blocks of memory that are freed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h."""
LARGE = 1 << 20
"""Bytes."""
_USUAL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}
"""Where glibc's own thresholds end up in a process that frees large blocks; they cannot be read."""
_KEEP_ALL = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: -1}


def return_large_blocks() -> bool:
    """Have freed blocks from a megabyte on given back to the system at once; gives whether the allocator can do that.

    By default, glibc keeps freed blocks of up to 32 megabytes for later, and with many sizes in turn hardly ever finds
    one that fits: a process then has far more memory than it uses.
    """
    return _set({_MMAP_THRESHOLD: LARGE})


@contextmanager
def keep_large_blocks() -> Iterator[bool]:
    """Within it, freed blocks are kept for the next ones, whatever their size; gives whether the allocator can do that.

    By default, glibc gives blocks of more than 32 megabytes, and what is free at the end of its heap, back to the
    system. A training step asks for as much again, and the system clears every page of it once more.
    """
    kept = _set(_KEEP_ALL)
    try:
        yield kept
    finally:
        if kept:
            _set(_USUAL)
            _library().malloc_trim(0)


def _set(options: dict[int, int]) -> bool:
    mallopt = getattr(_library(), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and all(mallopt(name, value) for name, value in options.items())


def _library() -> Any:
    return ctypes.CDLL(None)
