"""A slow disk: a cgroup whose processes may write few bytes per second to the disk of a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup/blkio/warmstart-proof-cluster")
RULES = ("blkio.throttle.write_bps_device", "blkio.throttle.read_bps_device")
PROBE = (
    "import os, sys, time; file = open(sys.argv[1], 'wb'); began = time.monotonic(); "
    "file.write(bytes(int(sys.argv[2]))); file.flush(); os.fsync(file); print(time.monotonic() - began)"
)


@contextmanager
def slow_disk(folder: Path, bytes_per_second: int) -> Iterator[str]:
    """Limit the disk of a folder for processes that `join`; gives why that cannot be done, or nothing if it can.

    A cgroup that an earlier proof left behind, since it was killed, is used again.
    """
    device = folder.stat().st_dev
    try:
        CGROUP.mkdir(exist_ok=True)
        for rule in RULES:
            (CGROUP / rule).write_text(f"{os.major(device)}:{os.minor(device)} {bytes_per_second}")
    except OSError as error:
        yield f"cgroup v1 with blkio cannot limit the disk of {folder}: {error}"
        return
    try:
        yield ""
    finally:
        for pid in (CGROUP / "cgroup.procs").read_text().split():
            (CGROUP.parent / "cgroup.procs").write_text(pid)
        CGROUP.rmdir()


def join(pid: int) -> None:
    """Put a process, or with 0 the calling one, and all that it starts from now on under the limit."""
    (CGROUP / "cgroup.procs").write_text(str(pid))


def write_speed(folder: Path, size: int, limited: bool) -> float:
    """Bytes per second that are written and flushed, with or without the limit."""
    file = folder / "speed"
    command = [sys.executable, "-c", PROBE, str(file), str(size)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, preexec_fn=partial(join, 0) if limited else None
    )
    file.unlink()
    return size / float(done.stdout)
