"""Commands in processes of their own that end, with all they started, as the test does; and one Ray at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE = 240
"""Seconds after which a command is taken to hang."""


@contextlib.contextmanager
def started(command: list[Any], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own, none of whose processes outlives the block."""
    process = subprocess.Popen(command, text=True, start_new_session=True, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finish(command: list[Any], seconds: float = PATIENCE, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; one that hangs fails the test, where `subprocess.run` would wait for its children."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as process:
        out, err = process.communicate(timeout=seconds)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def finish_together(command: list[Any], count: int) -> list[subprocess.CompletedProcess[str]]:
    """Run a command so many times side by side, each to its end."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(finish, count * [command]))


@contextlib.contextmanager
def one_ray() -> Iterator[None]:
    """No other test of this machine starts a Ray within the block: two of them want more than two cores have."""
    with (Path(tempfile.gettempdir()) / f"warmstart-tests-ray-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
