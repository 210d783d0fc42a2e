"""Locks between processes that share a folder, by `filelock`: which of them does which part of the work.

The operating system releases a lock when its process ends, however it ends, so the lock of a dead process is free at
once. Its file says who holds it; it is emptied afterwards, and stays, so that all lock one file of its name.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from warmstart.storage.folders import make_folder


@contextmanager
def try_lock(path: Path, remove: bool = False) -> Iterator[bool]:
    """Try to take a lock without waiting; yields whether this process holds it until the block ends.

    Args:
        remove: Remove the file afterwards; only where nobody waits for the lock, since who does would lock a file
            that is gone, and start over.
    """
    lock = _lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        with _cleared(path, remove):
            yield True
    finally:
        lock.release()


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock until the block ends, waiting as long as another process holds it."""
    with _lock(path), _cleared(path):
        yield


@contextmanager
def _cleared(path: Path, remove: bool = False) -> Iterator[None]:
    """Empty or remove a lock's file at the end of the block, except in a forked child, which does not hold it."""
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == own:
            with suppress(OSError):
                path.unlink() if remove else os.truncate(path, 0)


def lock_holder(path: Path) -> str:
    """The process that holds a lock, and its machine, for messages."""
    number, _, host = path.read_text(encoding="utf-8").strip().partition(" ") if path.is_file() else ("", "", "")
    return f"process {number} on {host}" if number else "another process"


def _lock(path: Path) -> FileLock:
    make_folder(path.parent)
    # A file system without flock is an error: the fallback, a file that exists, would outlive a dead process.
    return FileLock(path, thread_local=False, poll_interval=0.01, fallback_to_soft=False, on_acquired=_write_holder)


def _write_holder(handle: int) -> None:
    """Write down who holds the lock, for `lock_holder`; the lock itself does not need it."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
