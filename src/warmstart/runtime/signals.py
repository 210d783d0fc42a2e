"""Signals that ask a program to stop, turned into a flag that it can check between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether a signal asked to stop; true once it did."""

    def __init__(self) -> None:
        self.name = ""
        """The signal's name."""

    def __bool__(self) -> bool:
        return bool(self.name)


@contextmanager
def watch_stop_signals() -> Iterator[StopRequest]:
    """Note the first SIGTERM or SIGINT instead of ending the process; a second one acts as usual."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, frame: FrameType | None) -> None:
        request.name = signal.Signals(number).name
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore()
