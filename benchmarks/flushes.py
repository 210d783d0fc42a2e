"""What it costs that finished files outlast a power cut: a training and a labelling with flushes to disk, and without.

Both sides take turns in one process, on a disk and in memory. Computing is counted in CPU seconds, which other
processes do not change; flushing in seconds by the clock, since it is waiting.
"""

from __future__ import annotations

import csv
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import warmstart
from common import KEPT_WORK, ROOT, TINY, arguments, finish, timed, write_page
from warmstart.deploy.label.label_corpus import HERE, label

STEPS = 40
ROUNDS = int(os.environ.get("WARMSTART_BENCH_ROUNDS", "3"))
SIZE = {
    "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536,
}  # fmt: skip
"""That of MiniLM; time does not depend on the values of weights."""
BATCH, ROWS_PER_STEP = 32, 64
"""Rows of an optimizer step, and rows that are labelled for each such step."""
BETWEEN = 300
"""Seconds between two checkpoints, unless a recipe says otherwise."""
ROWS_PER_SHARD = 10_000
"""Unless a command says otherwise."""
MARK = 1.01
MEMORY = Path("/dev/shm")


@dataclass
class Flushes:
    """How often a file or a folder was flushed, and for how long."""

    seconds: list[float] = field(default_factory=list)


@contextmanager
def flushing(on: bool) -> Iterator[Flushes]:
    """Measure flushes, or leave them out."""
    flushes, fsync = Flushes(), os.fsync

    def measured(handle: int) -> None:
        started = time.perf_counter()
        if on:
            fsync(handle)
        flushes.seconds.append(time.perf_counter() - started)

    with mock.patch.object(os, "fsync", measured):
        yield flushes


def write_rows(path: Path, rows: int) -> None:
    """Texts of 8 to 64 words."""
    draw = random.Random(0)
    words = ["the", "film", "was", "good", "bad", "not", "very", "and", "so", "a"]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for number in range(rows):
            table.writerow([" ".join(draw.choices(words, k=draw.randint(8, 64))), ("no", "yes")[number % 2]])


@dataclass
class Bench:
    """The jobs that are measured, in one folder."""

    folder: Path
    steps: int
    made: int = 0

    def prepare(self) -> None:
        """An encoder, rows, and a run to label with."""
        sys.path.insert(0, str(ROOT / "tests"))
        from tiny import save_tiny

        save_tiny(self.folder / "encoder", **({} if TINY else SIZE))
        write_rows(self.folder / "train.csv", 2 * BATCH)
        for name, rows in (("corpus", ROWS_PER_STEP * self.steps), ("row", 1)):
            (self.folder / name).mkdir()
            write_rows(self.folder / name / "rows.csv", rows)
        self.run = self.fit()

    def fit(self) -> Path:
        """A training that saves one checkpoint."""
        self.made += 1
        out = self.folder / f"run-{self.made}"
        training = {"max_steps": self.steps, "batch_size": BATCH, "precision": "fp32"}
        warmstart.fit(
            train=str(self.folder / "train.csv"), out=out, model=str(self.folder / "encoder"), training=training,
            head={"pooling": "mean"}, checkpoints={"every_steps": max(self.steps // 2, 1)},
        )  # fmt: skip
        return out

    def label(self, corpus: str = "corpus") -> Path:
        """A labelling of one shard."""
        self.made += 1
        out = self.folder / f"labelled-{self.made}"
        label(self.run, str(self.folder / corpus), out, address=HERE)
        return out

    def seconds_per_row(self) -> float:
        """CPU seconds that a row more takes to label; opening the model and the like is not among them."""
        one = min(timed(lambda: self.label("row")) for _ in range(2))
        return (min(timed(self.label) for _ in range(2)) - one) / (ROWS_PER_STEP * self.steps - 1)


def measure(work: Callable[[], Path]) -> dict[str, Any]:
    """One job with flushes and without, by turns; the medians."""
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        for on in (False, True):
            started, cpu = time.perf_counter(), time.process_time()
            with flushing(on) as flushes:
                work()
            took = {"wall": time.perf_counter() - started, "cpu": time.process_time() - cpu}
            rounds.append({"on": on, "flushing": sum(flushes.seconds), "flushes": len(flushes.seconds), **took})
    with_, without = ([one for one in rounds if one["on"] == on] for on in (True, False))

    def median(side: list[dict[str, float]], name: str) -> float:
        return statistics.median(one[name] for one in side)

    return {
        "flushes": round(median(with_, "flushes")),
        "flushing_seconds": round(median(with_, "flushing"), 4),
        "cpu_seconds": round(median(without, "cpu"), 2),
        "wall_ratio": round(statistics.median(a["wall"] / b["wall"] for a, b in zip(with_, without, strict=True)), 3),
    }


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", STEPS, "optimizer steps")
    figures: dict[str, Any] = {"steps": args.n, "rows": ROWS_PER_STEP * args.n, "rounds": ROUNDS}
    KEPT_WORK.mkdir(exist_ok=True)
    for name, place in {"disk": KEPT_WORK, "memory": MEMORY}.items():
        with tempfile.TemporaryDirectory(dir=place) as folder:
            bench = Bench(Path(folder), args.n)
            bench.prepare()
            figures[name] = {"fit": measure(bench.fit), "labelling": measure(bench.label)}
            shard = bench.seconds_per_row() * ROWS_PER_SHARD
        fit, labelling = figures[name]["fit"], figures[name]["labelling"]
        fit["ratio"] = round(1 + fit["flushing_seconds"] / BETWEEN, 5)
        labelling["shard_seconds"] = round(shard, 1)
        labelling["ratio"] = round(1 + labelling["flushing_seconds"] / shard, 5)
    if args.write:
        command = "make bench-flushes" if args.n == STEPS else f"python benchmarks/flushes.py --n {args.n} --write"
        write_page("flushes", "Cost of outlasting a power cut", command, _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    rows = ""
    for job, unit in (("fit", "five minutes of training, with a checkpoint"), ("labelling", "a shard of 10,000 rows")):
        for place, words in (("disk", "a disk (ext4)"), ("memory", "memory (tmpfs)")):
            one = figures[place][job]
            rows += (
                f"| {unit} | {words} | {one['flushes']} | {one['flushing_seconds']:.2f} | **{one['ratio']:.3f}** |\n"
            )
    worst = max(figures[place][job]["ratio"] for place in ("disk", "memory") for job in ("fit", "labelling"))
    walls = ", ".join(
        f"{figures[place][job]['wall_ratio']}" for job in ("fit", "labelling") for place in ("disk", "memory")
    )
    return (
        f"A training or a labelling takes at most **{worst:.3f}** times as long as one that flushes nothing to disk; "
        f"the mark is {MARK}.\n\n"
        "Everything that is finished is flushed, files and folders, so that it outlasts a power cut. The code that "
        "does it is the same that [the simulation](simulation.md) runs on its own disk: it replaces Python's `os` and "
        "`open` in its own process, so a real run passes through nothing that is there for the simulation.\n\n"
        "| what | on | flushes | seconds of flushing | time with flushes, as a ratio to without |\n"
        f"| --- | --- | ---: | ---: | ---: |\n{rows}\n"
        f"Measured are a `fit` of {figures['steps']} steps with a model of MiniLM's size, which saves one checkpoint, "
        f"and a labelling of {figures['rows']:,} rows with it, in one process and one shard, {figures['rounds']} times "
        "each, with flushes and without by turns; figures are medians. Flushing is timed by the clock, computing by "
        "the CPU. A ratio sets the flushes of the whole run against the time that is usual for them: one checkpoint in "
        "five minutes, and 10,000 rows a shard, at the speed measured here. Side by side by the clock, the small runs "
        f"themselves took {walls} times as long with flushes (fit on disk and in memory, labelling on disk and in "
        "memory), other processes of the machine included."
    )


if __name__ == "__main__":
    main()
