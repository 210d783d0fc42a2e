"""Sharded training: the memory of a process beside DDP's, SIGKILL and resume, another number of processes, the folder.

An encoder of 109 million parameters is fine-tuned for a few steps by two processes and by four, copied to each (DDP)
and sharded over them (FSDP2). Sharded runs are killed and resumed, a run of two processes is resumed by four, and the
model folder is opened in plain transformers. A tiny encoder is killed more often.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from safetensors.torch import load_file

from common import ROOT, finish, weights

sys.path.insert(0, str(ROOT / "tests"))

import warmstart
from fsdp_kills import POINTS, kill_at
from fsdp_memory import Meter, peak_bytes
from fsdp_page import write
from ranks import Ranks
from small import reviews
from tiny import save_tiny
from warmstart.training.checkpoint_state import load_state

torch.set_num_threads(1)

STEPS, ROWS = 4, 8
"""Optimizer steps, and rows of each over all processes."""


class ShardedFit:
    """The same training again and again, each time in processes of its own.

    Args:
        epochs: Of so many steps each.
        saves: Steps between checkpoints.
    """

    def __init__(self, folder: Path, model: str, epochs: int = 1, saves: int = 2) -> None:
        self.folder, self.model, self.epochs, self.saves = folder, model, epochs, saves
        for name, rows in (("train", reviews(STEPS * ROWS)), ("test", reviews(8, start=1000))):
            lines = "".join(f"{text},{label}\n" for text, label in rows)
            (folder / f"{name}.csv").write_text(f"text,label\n{lines}", encoding="utf-8")

    def fit(self, out: Path, fsdp: bool, processes: int, point: str = "", anyway: tuple[str, ...] = ()) -> None:
        """Train, or go on, and note memory and the logits of the sharded model; in every process."""
        meter = Meter()
        kill_at(point)
        warmstart.fit(
            model=self.model,
            train=str(self.folder / "train.csv"),
            test=str(self.folder / "test.csv"),
            out=out,
            training={
                "learning_rate": 1e-4,
                "epochs": self.epochs,
                "batch_size": ROWS // processes,
                "precision": "fp32",
                "dropout_kernel": "torch",
                "fsdp": fsdp,
            },
            head={"init": "random"},
            checkpoints={"every_steps": self.saves, "when_finished": "keep"},
            resume_anyway=list(anyway),
        )
        if meter.model is not None:  # there was a step left to train
            meter.write(out, logits(meter.model))

    def run(self, out: Path, processes: int, fsdp: bool = True, anyway: tuple[str, ...] = ()) -> Path:
        """Train to the end."""
        code = Ranks(processes, partial(self.fit, out, fsdp, processes, anyway=anyway)).wait()
        if code:
            raise SystemExit(f"{processes} processes ended with exit code {code}")
        print(f"{out.name}: done", flush=True)
        return out

    def kill(self, out: Path, processes: int, point: str) -> None:
        """Train until the kill at a point."""
        for each in ("step", "resume") if point == "resume" else (point,):
            ranks = Ranks(processes, partial(self.fit, out, True, processes, each))
            ranks.wait()
            if -signal.SIGKILL not in ranks.codes.values():
                raise SystemExit(f"{processes} processes were not killed at {each}")

    def kill_some_time(self, out: Path, processes: int, latest: float, draw: random.Random) -> None:
        """Train, and kill at a random time after the first checkpoint, until that is before the end."""

        def has_saved() -> bool:
            return next(out.glob("checkpoints/step-*/manifest.json"), None) is not None

        started = Ranks(processes, partial(self.fit, out, True, processes))
        while not started.kill_when(has_saved, draw.uniform(0, latest)):
            shutil.rmtree(out)
            started = Ranks(processes, partial(self.fit, out, True, processes))


@torch.no_grad()
def logits(model: torch.nn.Module) -> torch.Tensor:
    """What a model answers about some tokens."""
    model.eval()
    ids = torch.arange(5, 69).reshape(4, 16)
    answer: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return answer


def state(run: Path) -> dict[str, torch.Tensor]:
    """Weights of the model, and weights and optimizer state of the last checkpoint."""
    last = sorted((run / "checkpoints").glob("step-*"))[-1]
    saved = load_state(last)
    tensors = {f"model/{name}": tensor for name, tensor in load_file(run / "model" / "model.safetensors").items()}
    tensors |= {f"weights/{name}": tensor for name, tensor in saved["weights"].items()}
    for number, values in saved["optimizer"]["state"].items():
        tensors |= {f"optimizer/{number}/{name}": tensor for name, tensor in values.items()}
    return tensors


def is_bit_equal(run: Path, other: Path) -> bool:
    """Whether two runs ended with the same weights and optimizer state."""
    one, two = state(run), state(other)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def largest_difference(run: Path, other: Path) -> float:
    """The largest difference between the weights of two models."""
    one, two = (load_file(each / "model" / "model.safetensors") for each in (run, other))
    return max(float((one[name] - two[name]).abs().max()) for name in one)


def ends_equal(fit: ShardedFit, run: Path, processes: int, whole: Path) -> bool:
    """Whether a run that was killed ends as the whole one."""
    same = is_bit_equal(fit.run(run, processes), whole)
    shutil.rmtree(run)
    return same


def killed(fit: ShardedFit, whole: Path, processes: int, point: str) -> bool:
    """Whether a run that is killed at a point ends as the whole one."""
    run = whole.with_name("killed")
    fit.kill(run, processes, point)
    return ends_equal(fit, run, processes, whole)


def compared(fit: ShardedFit, processes: int) -> dict[str, Any]:
    """DDP and FSDP with a number of processes: memory, and how far the results are apart."""
    copied = fit.run(fit.folder / f"ddp-{processes}", processes, fsdp=False)
    whole = fit.run(fit.folder / f"fsdp-{processes}", processes)
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(whole / "model")
    figures = {
        "memory": {name: Meter.read(run) for name, run in (("ddp", copied), ("fsdp", whole))},
        "from_ddp": largest_difference(copied, whole),
        "logits": float((logits(plain) - load_file(whole / "logits.safetensors")["logits"]).abs().max()),
    }
    shutil.rmtree(copied)
    return figures


def other_number(fit: ShardedFit, first: int, then: int) -> float:
    """How far a run that one number of processes began and another ended is from a run of the second number alone."""
    run, out = fit.folder / f"fsdp-{then}", fit.folder / "moved"
    fit.kill(out, first, "step")
    fit.run(out, then, anyway=("processes", "recipe.training.batch_size"))
    difference = largest_difference(run, out)
    shutil.rmtree(out)
    return difference


def tiny_kills(folder: Path, count: int) -> int:
    """How many of so many runs of a tiny encoder, killed at random times, end as whole ones."""
    fit, draw = ShardedFit(folder, str(save_tiny(folder / "encoder")), epochs=3), random.Random(0)
    whole = {processes: fit.run(folder / f"fsdp-{processes}", processes) for processes in (2, 4)[:count]}
    equal = 0
    for number in range(count):
        processes, run = (2, 4)[number % 2], folder / "killed"
        fit.kill_some_time(run, processes, 1.0, draw)
        equal += ends_equal(fit, run, processes, whole[processes])
    return equal


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=6, help="kills of the tiny encoder at random times (default 6)")
    parser.add_argument("--model", default="mpnet-base", help="the encoder, or tiny (default mpnet-base)")
    parser.add_argument("--processes", default="2,4", help="numbers of processes (default 2,4)")
    parser.add_argument(
        "--kills", type=int, default=4, help="points at which the fewest processes are killed (default 4)"
    )
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    numbers = [int(number) for number in args.processes.split(",")]
    with tempfile.TemporaryDirectory() as name:
        os.environ["WARMSTART_CACHE"] = f"{name}/cache"
        folder, small = Path(name) / "large", Path(name) / "tiny"
        folder.mkdir()
        small.mkdir()
        # Without dropout, so that another number of processes computes the same.
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        tiny = args.model == "tiny"
        encoder = (
            save_tiny(folder / "encoder", **still) if tiny else without_dropout(weights(args.model), folder, still)
        )
        figures: dict[str, Any] = {"model": args.model, "libraries_mb": round(peak_bytes() / 1e6)}
        fit = ShardedFit(folder, str(encoder))
        for number in numbers:
            figures[str(number)] = compared(fit, number)
            print(json.dumps(figures), flush=True)
        for number in numbers:
            points, whole = POINTS[: args.kills if number == numbers[0] else 1], folder / f"fsdp-{number}"
            equal = sum(killed(fit, whole, number, point) for point in points)
            figures[str(number)] |= {"kills": len(points), "bit_equal": equal}
            print(json.dumps(figures), flush=True)
        figures["other_number"] = other_number(fit, numbers[0], numbers[-1]) if len(numbers) > 1 else 0.0
        figures |= {"tiny_kills": args.n, "tiny_bit_equal": tiny_kills(small, args.n)}
    if args.write:
        write(figures, numbers)
    finish(figures)


def without_dropout(model: str, folder: Path, changes: dict[str, float]) -> Path:
    """A copy of an encoder's folder whose config has no dropout."""
    copy = folder / "encoder"
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("onnx", "openvino", "*.bin", "*.h5", "*.ot"))
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    return copy


if __name__ == "__main__":
    main()
