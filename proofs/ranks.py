"""The processes of one distributed training, forked from a process that has the libraries loaded.

As under `torchrun`: a process apart keeps the store by which they meet, and if one of them ends badly, the others are
ended too. Forks, because importing PyTorch in four processes takes longer than the trainings of a proof.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

import torch.distributed

HOST = "127.0.0.1"


class Ranks:
    """Processes that run a function together, each knowing its number by the variables of `torchrun`."""

    def __init__(self, count: int, function: Callable[[], None]) -> None:
        port, self.store = _start_store()
        self.running = {_fork(function, number, count, port): number for number in range(count)}
        self.codes: dict[int, int] = {}
        """Exit codes of those that ended by themselves; that of a signal is negative."""

    def poll(self) -> None:
        """Look who has ended; where one has ended badly, the others are ended too."""
        for process in list(self.running):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self.codes[self.running.pop(process)] = os.waitstatus_to_exitcode(status)
        if any(self.codes.values()):
            self.kill()

    def kill(self) -> None:
        """SIGKILL to all of them."""
        for process in self.running:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self.running = {}

    def wait(self) -> int:
        """Wait until all have ended, and give the largest exit code, 0 where all ended well or were killed here."""
        while self.running:
            self.poll()
            time.sleep(0.05)
        os.kill(self.store, signal.SIGKILL)
        os.waitpid(self.store, 0)
        return max(map(abs, self.codes.values()), default=0)

    def kill_when(self, ready: Callable[[], bool], delay: float) -> bool:
        """SIGKILL to all `delay` seconds after something is so; False if they ended before."""
        deadline = None
        while deadline is None or time.monotonic() < deadline:
            self.poll()
            if not self.running:
                self.wait()
                return False
            if deadline is None and ready():
                deadline = time.monotonic() + delay
            time.sleep(0.002)
        self.kill()
        self.wait()
        return True


def _start_store() -> tuple[int, int]:
    """Start a process that keeps a store; gives its port and its id."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        store = torch.distributed.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
        os.write(writing, str(store.port).encode())
        while True:
            signal.pause()
    port = int(os.read(reading, 16))
    os.close(reading)
    os.close(writing)
    return port, process


def _fork(function: Callable[[], None], number: int, count: int, port: int) -> int:
    process = os.fork()
    if process:
        return process
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
    os.environ |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    os.environ |= {"MASTER_ADDR": HOST, "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    code = 70
    try:
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
