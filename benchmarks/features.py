"""Memory of `warmstart features` along the way over many texts, and its speed beside the bare forward pass.

The texts are the training rows of banking77, short ones, repeated as often as needed; short texts make the most of what
is not the forward pass. Memory is the resident memory of the command, watched from outside, up to a tenth, a half and
all of the rows, in the fastest precision. Speed is the CPU time of one thread from the file of texts to the file of
vectors, beside nothing but the forward pass over the very same batches, padded already, by turns in one process.
"""

from __future__ import annotations

import csv
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from common import ROOT, arguments, finish, timed, weights, write_page
from padding import read_texts
from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.inference.batching import group_by_length
from warmstart.inference.feature_files import write_vectors
from warmstart.inference.features import BUFFER, Extractor
from warmstart.models.precision import resolve_precision
from warmstart.tasks.shared.text_inputs import TEXT, encode_texts, pad

MARKS = (0.1, 0.5, 1.0)
"""Shares of the rows up to which memory is told."""
BATCH = 64
STRETCH = 2 * BUFFER
"""Rows of a stretch that a side runs before the other has its turn."""
ROUNDS = 6


def write_texts(path: Path, texts: list[str], count: int) -> None:
    """A CSV file of so many texts, repeated from the first on."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([text] for text in itertools.islice(itertools.cycle(texts), count))


def watch(path: Path, model: str, count: int, width: int) -> dict[str, float]:
    """The highest resident memory in MB of the command, up to each mark, and its seconds."""
    import psutil

    out = path.with_suffix(".npy")
    command = [sys.executable, "-m", "warmstart.cli.main", "features", str(path), "--model", model, "--out", str(out)]
    started = time.perf_counter()
    command += ["--precision", "auto", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    watched = psutil.Process(process.pid)
    highest = dict.fromkeys(MARKS, 0.0)
    while process.poll() is None:
        try:
            memory = watched.memory_info().rss / 1e6
        except psutil.Error:
            break
        staged = list(path.parent.glob(f".{out.name}.*.staging"))
        try:
            done = staged[0].stat().st_size / (4 * width) if staged else 0
        except FileNotFoundError:  # published between two looks
            done = count
        for mark in MARKS:
            if done <= mark * count:
                highest[mark] = max(highest[mark], memory)
        time.sleep(0.02)
    if process.wait():
        sys.exit(f"warmstart features failed with code {process.returncode}")
    found = {f"mb_{round(mark * count)}": round(highest[mark], 1) for mark in MARKS}
    return {**found, "seconds": round(time.perf_counter() - started, 1)}


def speed(model: str, path: Path, rounds: int) -> dict[str, float]:
    """How fast from file to file is, as a share of the bare forward pass over the same batches."""
    extractor = Extractor.load(model)
    schema, source = Schema((TEXT,)), Source((str(path),))
    texts = [row["text"] for row in iter_rows(source, schema, Findings())]
    batches = []
    for start in range(0, len(texts), BUFFER):
        some = {"text": texts[start : start + BUFFER]}
        features = encode_texts(some, extractor.tokenizer, extractor.window, False)
        batches += [
            pad([features[index] for index in chosen], extractor.tokenizer)
            for chosen in group_by_length(features, BATCH)
        ]

    def ours() -> None:
        chunks = extractor.stream(iter_rows(source, schema, Findings()), BATCH)
        places = (([f"row {row['line']}" for row in rows], vectors) for rows, vectors in chunks)
        write_vectors(places, path.with_suffix(".npy"), extractor.shape)

    @torch.inference_mode()
    def bare() -> None:
        for batch in batches:
            extractor.encoder(**batch)

    sides: dict[str, Callable[[], None]] = {"ours": ours, "bare": bare}
    times: dict[str, list[float]] = {name: [] for name in sides}
    bare()  # warms up
    for number in range(rounds):
        for name in sides if number % 2 == 0 else reversed(sides):
            times[name].append(timed(sides[name]))
    ratios = [b / a for a, b in zip(times["ours"], times["bare"], strict=True)]
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    return {
        "ratio_bare": round(statistics.median(ratios), 3),
        "ratio_lowest": round(min(ratios), 3),
        "rows_per_second": round(len(texts) / statistics.median(times["ours"]), 1),
        "tokens_per_row": round(tokens / len(texts), 1),
    }


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 100_000, "texts")
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    texts = read_texts("banking77", 20_000)["text"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.environ.get("WARMSTART_BENCH_TINY"):
            sys.path.insert(0, str(ROOT / "tests"))
            from tiny import save_tiny

            model, width = str(save_tiny(folder / "model")), 32
        else:
            model, width = weights("minilm"), 384
        write_texts(folder / "some.csv", texts, min(STRETCH, args.n))
        figures: dict[str, Any] = {"rows": args.n, **speed(model, folder / "some.csv", ROUNDS if args.write else 2)}
        print(figures, flush=True)
        write_texts(folder / "all.csv", texts, args.n)
        figures |= watch(folder / "all.csv", model, args.n, width)
    figures["mb_growth"] = round(figures[f"mb_{args.n}"] - figures[f"mb_{round(MARKS[0] * args.n)}"], 1)
    if args.write:
        write_page("features", "Vectors of many texts", "make bench-features", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    count = figures["rows"]
    rows = [f"| {round(mark * count):,} | {figures[f'mb_{round(mark * count)}']:,} |" for mark in MARKS]
    return (
        f"From the first of {count:,} vectors to the last, memory grows by **{figures['mb_growth']} MB**, and the "
        f"speed is **{figures['ratio_bare']}** of that of the bare forward pass.\n\n"
        f"`warmstart features` on {count:,} texts, the training rows of banking77 repeated "
        f"({figures['tokens_per_row']} tokens per text), MiniLM in {resolve_precision('auto')} on one thread, last "
        f"layer, mean pooling, to `.npy`:\n\n"
        "| vectors written | peak resident memory so far, MB |\n| --- | --- |\n" + "\n".join(rows) + "\n\n"
        f"The file grows to {count * 384 * 4 / 1e6:,.0f} MB.\n\n"
        f"The speed is measured from file to file, against the bare forward pass over the same batches of {BATCH}, "
        f"already padded, both in fp32: the median of {ROUNDS} rounds of {STRETCH:,} rows "
        f"each, by CPU time; the lowest is {figures['ratio_lowest']}; {figures['rows_per_second']} texts per "
        "second. The target is 0.9. This includes reading, tokenizing, padding, pooling and writing, "
        "which weigh most with short texts."
    )


if __name__ == "__main__":
    main()
