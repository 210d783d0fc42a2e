"""A tiny training to be killed and resumed: seconds long, run in a fork of a process that has the libraries loaded."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from common import ROOT

sys.path.insert(0, str(ROOT / "tests"))

import warmstart
from small import reviews
from tiny import save_tiny
from warmstart.errors import WarmstartError

torch.set_num_threads(1)

STEPS = 24
KEEP = 2


class TinyFit:
    """The same training again and again, each time in a process of its own."""

    def __init__(self, folder: Path, saves: int = 3) -> None:
        os.environ["WARMSTART_CACHE"] = str(folder / "cache")
        self.encoder = str(save_tiny(folder / "encoder"))
        self.train = folder / "train.csv"
        self.test = folder / "test.csv"
        for path, rows in ((self.train, reviews(64)), (self.test, reviews(8, start=1000))):
            path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows), encoding="utf-8")
        self.settings: dict[str, object] = {
            "training": {"learning_rate": 1e-3, "epochs": 6, "batch_size": 16, "precision": "fp32"},
            "checkpoints": {"every_steps": saves, "keep_last": KEEP, "when_finished": "keep"},
        }

    def fit(self, out: Path) -> None:
        """Train, or go on."""
        warmstart.fit(model=self.encoder, train=str(self.train), test=str(self.test), out=out, **self.settings)

    def start(self, out: Path) -> int:
        """Start a training in a fork and give its process id; its exit code is that of the command line."""
        child = os.fork()
        if child:
            return child
        code = 70
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            if not os.environ.get("WARMSTART_TRACEBACK"):
                os.dup2(null, 2)
            self.fit(out)
            code = 0
        except WarmstartError as error:
            (self.train.parent / "last-error").write_text(str(error), encoding="utf-8")
            code = error.exit_code
        finally:
            os._exit(code)

    def run(self, out: Path) -> int:
        """Train in a fork to the end and give the exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.start(out), 0)[1])


def kill_when(child: int, ready: Callable[[], bool], delay: float) -> bool:
    """SIGKILL a process `delay` seconds after something is so; False if the process ended before."""
    while not ready():
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0002)
    deadline = time.monotonic() + delay
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def result(run: Path) -> dict[str, bytes]:
    """What must be equal to the bit: the model's weights and the last checkpoint's tensors, optimizer included."""
    last = sorted((run / "checkpoints").glob("step-*"))[-1]
    names = (run / "model" / "model.safetensors", last / "tensors.safetensors", run / "metrics.json")
    return {path.name: path.read_bytes() for path in names} | {"step": last.name.encode()}


def draw(seed: int) -> random.Random:
    """A source of random instants that is the same in every proof run."""
    return random.Random(seed)
