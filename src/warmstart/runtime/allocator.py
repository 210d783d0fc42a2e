"""How the C library's allocator treats large blocks of memory that are freed."""

from __future__ import annotations

import ctypes
import sys

_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of malloc.h."""
LARGE = 1 << 20
"""Bytes."""


def return_large_blocks() -> bool:
    """Have freed blocks from a megabyte on given back to the system at once; gives whether the allocator can do that.

    By default, glibc keeps freed blocks of up to 32 megabytes for later, and with many sizes in turn hardly ever finds
    one that fits: a process then has far more memory than it uses.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt and mallopt(_MMAP_THRESHOLD, LARGE))
