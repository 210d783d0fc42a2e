"""Claims: which of several processes that share a folder does which piece of work."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Try to claim a piece of work by its lock file; gives whether this process has it until the block ends.

    The system lets go of the lock when its process ends, however it ends, so the claim of a dead process is free at
    once. The file stays, since removing it would let two processes hold locks on two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        # For people: the lock itself needs no number.
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield True


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock file until the block ends, waiting while another process has it; a dead one has it no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def holder(path: Path) -> str:
    """The number of the process that last held the claim, in words for people."""
    found = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return f"process {found}" if found else "another process"
