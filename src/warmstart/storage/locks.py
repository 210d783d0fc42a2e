"""Locks between processes that share a folder, by `filelock`: which of them does which part of the work.

The operating system releases a lock when its process ends, however it ends, so the lock of a dead process is free at
once. The lock file stays, since removing it would let two processes lock two files of one name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Try to take a lock without waiting; yields whether this process holds it until the block ends."""
    lock = _lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock until the block ends, waiting as long as another process holds it."""
    with _lock(path):
        yield


def lock_holder(path: Path) -> str:
    """The process that last held a lock, for messages."""
    number = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return f"process {number}" if number else "another process"


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A file system without flock is an error: the fallback, a file that exists, would outlive a dead process.
    return FileLock(path, thread_local=False, poll_interval=0.01, fallback_to_soft=False, on_acquired=_write_pid)


def _write_pid(handle: int) -> None:
    """Write down who holds the lock, for `lock_holder`; the lock itself does not need it."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
