"""Signals that ask a program to stop, turned into a question it can answer when it suits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StopAsked:
    """Whether a signal asked to stop, and which one."""

    def __init__(self) -> None:
        self.name = ""

    def __bool__(self) -> bool:
        return bool(self.name)


@contextmanager
def stop_asked() -> Iterator[StopAsked]:
    """Note the first SIGTERM or SIGINT instead of dying of it; a second one acts as it always does."""
    asked = StopAsked()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, frame: Any) -> None:
        asked.name = signal.Signals(number).name
        for one, handler in before.items():
            signal.signal(one, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
