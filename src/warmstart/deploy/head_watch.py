"""A watch over the head of a Ray cluster: Ray itself ends a process whose head is gone, with a page of log."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from warmstart.errors import ClusterError

GONE_SECONDS = 30.0
"""How long the head may be silent: less than the minute after which Ray ends the process."""
PAUSE = 2.0


def host_and_port(address: str) -> tuple[str, int] | None:
    """Where a head listens, if its address says so: `local` and `auto` do not."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else None


def reach(place: tuple[str, int], timeout: float) -> None:
    """Connect, and leave again; an `OSError` if nobody answers."""
    try:
        socket.create_connection(place, timeout=timeout).close()
    except OverflowError as error:  # no such port
        raise OSError(str(error)) from None


@contextmanager
def watched(address: str, gone_seconds: float = GONE_SECONDS) -> Iterator[None]:
    """End this process in words, with the exit code of a `ClusterError`, once the head does not answer any more.

    An exception would not do: the main thread waits inside Ray, which does not come back without its head.
    """
    place = host_and_port(address)
    if place is None:
        yield
        return
    over = threading.Event()
    threading.Thread(target=_watch, args=(place, gone_seconds, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(place: tuple[str, int], gone_seconds: float, over: threading.Event) -> None:
    seen = time.monotonic()
    while not over.wait(PAUSE):
        try:
            reach(place, PAUSE)
            seen = time.monotonic()
        except OSError as error:
            if time.monotonic() - seen > gone_seconds and not over.is_set():
                print(
                    f"\nwarmstart: the Ray head at {place[0]}:{place[1]} has not answered for {gone_seconds:.0f} "
                    f"seconds ({error}). What is done is kept; run the same command to resume once a head runs",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(ClusterError.exit_code)
