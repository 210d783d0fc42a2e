"""How much of the engine's speed reaches the answers: a run's stream beside the bare engine and a plain pipeline.

The texts are of four data sets, short and long ones mixed, answered by MiniLM with a head for classify. All sides have
one thread; what is told is CPU time. The bare engine computes a stretch of texts as it would be ideal: all of them
sorted by length, already in padded batches. The pipeline is that of transformers, 32 texts at a time in the order they
come. They go on by turns, batch by batch, so that a machine that slows down slows all. Finished stretches are kept, so
that a run that was stopped goes on, and so are finished parts (`--parts auto,ray`).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

import kept
import warmstart
from bars import bars
from common import KEPT_WORK, ROOT, TINY, finish, timed, weights, write_page
from padding import read_texts
from turns import Turns
from warmstart.inference.batching import group_by_length
from warmstart.inference.predictor import Predictor
from warmstart.plan.stopwatch import peak_gb

SETS = {"rt-polarity": 0.35, "banking77": 0.3, "trec_qc": 0.15, "imdb": 0.2}
"""The share of each data set among the texts."""
STRETCH = 10_000
"""Texts that are measured, and kept, as one."""
EVERY = {"bf16": 1, "fp32": 5}
"""32 bits are slow: of its sides, only each fifth stretch is computed."""
SHARE = 8
"""The pipeline answers each eighth text of a stretch; it does not look ahead, so that these are like all."""
KEPT = KEPT_WORK / "bench-predict.jsonl"
TRIALS = 5
"""How often an engine is chosen."""
RAY = 5000
"""Texts that a worker of Ray answers."""
MEMORY = (0.2, 20)
"""Rows answered when memory is watched, as parts of the texts: 10,000 and 1,000,000 of 50,000."""


def mixed(count: int) -> list[str]:
    """So many texts of all sets, by chance; sets too small are repeated."""
    found: list[str] = []
    for name, share in SETS.items():
        texts = read_texts(name, 20_000)["text"]
        found += itertools.islice(itertools.cycle(texts), round(share * count))
    random.Random(0).shuffle(found)
    return found[:count]


def make_run(folder: Path, tiny: bool = TINY) -> Path:
    """A run with a head for classify, hardly trained."""
    if tiny:
        sys.path.insert(0, str(ROOT / "tests"))
        from tiny import save_tiny

        model = str(save_tiny(folder / "encoder"))
    else:
        model = weights("minilm")
    texts = read_texts("rt-polarity", 200)
    with (folder / "train.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts["text"], texts["label"], strict=True)])
    training = {"max_steps": 20, "batch_size": 8, "precision": "fp32"}
    train = str(folder / "train.csv")
    return warmstart.fit(model=model, train=train, test=train, out=folder / "run", training=training).folder


def ideal(predictor: Predictor, texts: list[str]) -> list[dict[str, torch.Tensor]]:
    """All texts sorted by length, in padded batches."""
    features = [one for _, some in predictor.encode([{"text": text} for text in texts]) for one in some]
    return [predictor.collate([features[index] for index in chosen]) for chosen in group_by_length(features)]


class Sides:
    """What is measured side by side in one precision."""

    def __init__(self, run: Path, precision: str) -> None:
        import transformers

        self.predictor = Predictor.load(run, precision)
        self.pipeline = transformers.pipeline(
            "text-classification",
            model=str(run / "model"),
            dtype=torch.bfloat16 if precision == "bf16" else torch.float32,
            device="cpu",
            truncation=True,
        )

    def measure(self, texts: list[str]) -> dict[str, float]:
        """Texts per CPU second of each side."""
        some = texts[::SHARE]
        parts = [some[start : start + 32] for start in range(0, len(some), 32)]
        batches = ideal(self.predictor, texts)
        engine = self.predictor.engine
        bare = [partial(engine.compute, batch) for batch in batches]
        turns = Turns(engine, bare=bare, pipeline=[partial(self.pipeline, part, batch_size=32) for part in parts])
        beside = self.predictor.with_engine(turns)
        whole = timed(lambda: sum(1 for _ in beside.stream({"text": text} for text in texts)))
        ours = whole - sum(turns.seconds.values())
        turns.go_on(1.0)
        return {
            "ours": len(texts) / ours,
            "bare": len(texts) / turns.seconds["bare"],
            "pipeline": len(some) / turns.seconds["pipeline"],
        }


def speeds(run: Path, texts: list[str], so_far: Path | None) -> dict[str, Any]:
    """The median over stretches of ours as a share of the bare engine, and as a multiple of the pipeline."""
    found: list[dict[str, Any]] = _read(so_far, len(texts))
    done = {(one["precision"], one["start"]) for one in found}
    for precision, every in EVERY.items():
        sides: Sides | None = None
        for number, start in enumerate(range(0, len(texts), STRETCH)):
            if number % every or (precision, start) in done:
                continue
            sides = sides or Sides(run, precision)
            if number == 0:
                sides.measure(texts[:64])  # warms up
            told = sides.measure(texts[start : start + STRETCH])
            found.append({"of": len(texts), "precision": precision, "start": start, **told})
            print(found[-1], flush=True)
            if so_far is not None:
                so_far.parent.mkdir(exist_ok=True)
                with so_far.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    figures: dict[str, Any] = {}
    for precision in EVERY:
        own = [one for one in found if one["precision"] == precision]
        figures[f"{precision}_of_bare"] = round(statistics.median(one["ours"] / one["bare"] for one in own), 3)
        figures[f"{precision}_of_pipeline"] = round(statistics.median(one["ours"] / one["pipeline"] for one in own), 2)
        figures[f"{precision}_texts_per_second"] = round(statistics.median(one["ours"] for one in own), 1)
    for name in ("bare", "pipeline"):
        figures[f"against_{name}"] = min(figures[f"{precision}_of_{name}"] for precision in EVERY)
    return figures


def _read(so_far: Path | None, count: int) -> list[dict[str, Any]]:
    if so_far is None or not so_far.is_file():
        return []
    return [one for one in map(json.loads, so_far.read_text(encoding="utf-8").splitlines()) if one["of"] == count]


def automatic(run: Path, texts: list[str]) -> dict[str, Any]:
    """What `auto` takes in each trial, and its speed as a share of the fastest, by turns on other texts of the mix."""
    chosen: list[str] = []
    engines: dict[str, Predictor] = {}
    for number in range(1 if TINY else TRIALS):
        predictor = Predictor.load(run, "auto", "auto")
        predictor.predict(texts[number * 1024 : (number + 1) * 1024])
        assert predictor.trial is not None
        chosen.append(f"{predictor.trial['engine']} {predictor.trial['precision']}")
        for name in predictor.trial["texts_per_second"]:
            engines[name] = engines.get(name) or Predictor.load(run, *reversed(name.split()))
    batches = ideal(predictor, texts[-512:])
    times: dict[str, float] = dict.fromkeys(engines, 0.0)
    for batch in [batches[0], *batches]:
        for name, one in engines.items():
            times[name] += timed(lambda one=one, batch=batch: one.engine.compute(batch))  # type: ignore[misc]
    best = min(times, key=times.__getitem__)
    shares = [round(times[best] / times[name], 3) for name in chosen]
    told = {name: round(512 / seconds, 1) for name, seconds in times.items()}
    on = date.today().isoformat()  # another machine may have measured the other parts
    return {"auto": chosen, "auto_best": best, "auto_share": min(shares), "engines": told, "auto_on": on}


def memory(count: int) -> dict[str, float]:
    """The highest resident memory in MB of a process that answers so many short texts with a tiny model."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        run = make_run(Path(place), tiny=True)
        for share in MEMORY:
            rows = max(8, round(share * count))
            command = [sys.executable, __file__, "--memory", str(rows), str(run)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[f"mb_{rows}"] = float(done.stdout.splitlines()[-1])
    return found


def watch(rows: int, run: str) -> None:
    """Answer so many short texts, one after the other, and tell the highest resident memory."""

    def texts() -> Iterator[dict[str, str]]:
        return ({"text": f"the film {number} was good"} for number in range(rows))

    assert sum(1 for _ in Predictor.load(run).stream(texts())) == rows
    # Not ru_maxrss, which a process inherits from the one that started it.
    print(peak_gb() * 1000)


def by_ray(run: Path, texts: list[str]) -> dict[str, Any]:
    """The speed of one worker of Ray as a share of the bare engine's, timed before and after it, by the clock."""
    from ray_speed import ray_rows_per_second

    some = texts[:RAY]
    predictor = Predictor.load(run, "bf16")
    batches = ideal(predictor, some)

    def bare() -> float:
        started = time.perf_counter()
        for batch in batches:
            predictor.engine.compute(batch)
        return len(some) / (time.perf_counter() - started)

    before = bare()
    ray = ray_rows_per_second(run, some, precision="bf16")
    return {"ray_against_bare": round(2 * ray / (before + bare()), 3)}


PARTS = ("speeds", "auto", "memory") if TINY else ("speeds", "auto", "memory", "ray")
"""A sample leaves Ray out: the tests start it often enough."""


def main() -> None:
    """Measure and report."""
    if sys.argv[1:2] == ["--memory"]:
        watch(int(sys.argv[2]), sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50_000, help="texts (default 50000)")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of " + ", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write the results page, once all parts are there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    texts = mixed(args.n)
    with tempfile.TemporaryDirectory() as place:
        os.environ["WARMSTART_CACHE"] = f"{place}/cache"
        run = make_run(Path(place))
        warmstart.export(run, int8=True, max_drop=100)
        ways: dict[str, Callable[[], dict[str, Any]]] = {
            "speeds": lambda: speeds(run, texts, KEPT if args.write else None),
            "auto": lambda: automatic(run, texts),
            "memory": lambda: memory(args.n),
            "ray": lambda: by_ray(run, texts),
        }
        asked = {part: ways[part] for part in args.parts.split(",")}
        found = kept.by_parts("predict", asked, args.write)
    figures = {"texts": len(texts), **kept.flat(found)}
    if args.write and set(found) == set(PARTS):
        ratios = {one: figures[f"{one}_of_pipeline"] for one in EVERY}
        bars(ratios, ROOT / "docs" / "results" / "predict.svg", "times as fast as transformers.pipeline")
        write_page("predict", "Answers beside the bare engine", "make bench-predict", _page(figures))
        KEPT.unlink(missing_ok=True)
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    first = next(iter(EVERY))
    lines = [
        f"In {first}, warmstart has **{figures[f'{first}_of_bare']:.1%}** of the bare engine's speed and is "
        f"**{figures[f'{first}_of_pipeline']} times** as fast as a plain `transformers.pipeline`.",
        "",
        "![How many times as fast as a plain pipeline, by precision](predict.svg)",
        "",
        f"{figures['texts']:,} real texts, short and long ones mixed (rt-polarity, banking77, TREC, IMDB), classified",
        "by MiniLM: on one thread, by CPU time, alternating batch by batch. The *bare engine* runs on ideal batches,",
        "with all texts already sorted by length and padded; *times pipeline* is how many times faster warmstart is",
        "than `transformers.pipeline` with 32 texts at a time.",
        "",
        "| precision | texts per second | share of bare engine | times pipeline |",
        "| --- | --- | --- | --- |",
    ]
    for one in EVERY:
        told = [figures[f"{one}_{name}"] for name in ("texts_per_second", "of_bare", "of_pipeline")]
        lines.append(f"| {one} | {told[0]:,} | {told[1]:.1%} | {told[2]} |")
    engines = ", ".join(f"{name} {speed:,}" for name, speed in figures["engines"].items())
    peaks = " and ".join(
        f"{value:,.0f} MB for {int(name[3:]):,}" for name, value in figures.items() if name[:3] == "mb_"
    )
    chosen = ", ".join(f"{name} ({count} times)" for name, count in Counter(figures["auto"]).items())
    where = "" if any("bf16" in name for name in figures["engines"]) else " on a processor without fast bf16"
    lines += [
        "",
        f"In {len(figures['auto'])} trials{where} ({figures['auto_on']}), `--engine auto --precision auto` chose",
        f"{chosen}; the fastest measured is {figures['auto_best']}, and the choice has at least",
        f"{figures['auto_share']:.1%} of its speed (texts per second: {engines}).",
        "",
        f"A Ray worker with one thread, in bf16, has {figures['ray_against_bare']:.1%} of the bare engine's speed,",
        "by wall-clock time from its first shard to its last.",
        "",
        f"Peak memory of a process that classifies short texts with a tiny model: {peaks} texts.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
