"""Faults of the world, not of the data: waited out with growing pauses, up to a limit."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from typing import TypeVar

from warmstart.errors import DiskError, OutageError, WarmstartError

RETRY_TIMEOUT = 600.0
"""Seconds that a fault may last before the job ends."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
"""Seconds; a pause is up to twice as long as the one before."""

ResultT = TypeVar("ResultT")


def retried(
    attempt: Callable[[], ResultT], what: str, timeout: float, is_fault: Callable[[BaseException], bool]
) -> ResultT:
    """What an attempt returns; while it raises a fault of the world, it is made again.

    Args:
        what: What the attempt is about, for the message of the `OutageError` in the end.
        timeout: Seconds from the first failure on; 0 to give up at once.
        is_fault: Whether an exception is a fault of the world; any other is raised as it is.
    """
    first: float | None = None
    pause = FIRST_PAUSE
    while True:
        try:
            return attempt()
        except BaseException as error:
            if not is_fault(error):
                raise
            now = time.monotonic()
            first = now if first is None else first
            if now - first >= timeout:
                raise _given_up(what, error, timeout) from error
        # Not all workers at once: a server that comes back would be overrun.
        time.sleep(min(random.uniform(pause / 2, pause), first + timeout - now))
        pause = min(2 * pause, LONGEST_PAUSE)


def is_memory_fault(error: BaseException) -> bool:
    """Whether memory ran out; torch says so in classes and words of its own."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def is_storage_fault(error: BaseException) -> bool:
    """Whether a file system, the network or memory failed, in a call that does nothing else."""
    return isinstance(error, OSError) or is_memory_fault(error)


def _given_up(what: str, error: BaseException, timeout: float) -> WarmstartError:
    """The error that ends the job."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    reason = " ".join(str(error).split()) or type(error).__name__
    tried = f"; retried for {timeout:g} s (--retry-timeout)" if timeout else ""
    message = f"{what}: {reason[:400]}{tried}. What is finished is kept; mend that and run the same command again"
    return DiskError(message) if full else OutageError(message)
