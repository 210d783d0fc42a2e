"""What every peer is asked and answers: `python studies/peers/X.py JOB.json`.

A job names its files, its task and its limits:

    {"train": CSV file, "test": CSV file, "task": "classify", "score" or "rank", "model": folder of a sentence encoder,
     "seed": 0, "max_tokens": 128, "out": JSON file}

The CSV files have columns `text` and `label`, and `pair` where the rows are pairs; for `rank`, `query`, `document` and
`label`, which are read as a pair. The answer, in `out`, is

    {"answers": [a label or a number for each test row, in order; for `rank`, more is more relevant],
     "seconds": ..., "cpu_seconds": ..., "versions": {library: version}, "notes": "the settings in a sentence"}

The time is that of training and predicting, with the loading of the encoder and without imports or the reading of the
CSV files. Labels are text throughout. Standard library only: each peer may have a venv of its own.
"""

from __future__ import annotations

import csv
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

TASKS = ("classify", "score", "rank")
Answers = list[str] | list[float]


@dataclass(frozen=True)
class Rows:
    """Rows of a CSV file, column by column."""

    texts: list[str]
    pairs: list[str] | None
    """The second texts; None where rows are single texts."""
    labels: list[str]

    @property
    def numbers(self) -> list[float]:
        """The labels as numbers, which they are in `score` and in `rank`."""
        return [float(label) for label in self.labels]


@dataclass(frozen=True)
class Job:
    """What is to be learned from, answered, and how."""

    train: Rows
    test: Rows
    task: str
    model: str
    seed: int
    max_tokens: int
    out: Path


def run(answer: Callable[[Job], tuple[Answers, str]], libraries: Sequence[str]) -> None:
    """Do the job that the command line names by `answer`, which gives the answers and its settings in a sentence."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} JOB.json")
    job = read_job(Path(sys.argv[1]))
    started, cpu_started = time.perf_counter(), _cpu_seconds()
    answers, notes = answer(job)
    result = {
        "answers": answers,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": _cpu_seconds() - cpu_started,
        "versions": {name: version(name) for name in libraries},
        "notes": notes,
    }
    write_result(job, result)


def read_job(path: Path) -> Job:
    """The job of a file, with its rows; leaves, saying what is wrong, where it cannot be done."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    missing = [key for key in ("train", "test", "task", "model", "seed", "max_tokens", "out") if key not in fields]
    if missing:
        sys.exit(f"{path}: no {missing[0]!r}")
    if fields["task"] not in TASKS:
        sys.exit(f"{path}: task is {fields['task']!r}, expected one of {', '.join(TASKS)}")
    train, test = read_rows(Path(fields["train"])), read_rows(Path(fields["test"]))
    if (train.pairs is None) != (test.pairs is None):
        sys.exit(f"{path}: only one of {fields['train']} and {fields['test']} has a column 'pair'")
    limits = {"seed": int(fields["seed"]), "max_tokens": int(fields["max_tokens"])}
    return Job(train, test, fields["task"], str(fields["model"]), out=Path(fields["out"]), **limits)


def read_rows(path: Path) -> Rows:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        text, pair = ("query", "document") if "query" in columns else ("text", "pair")
        absent = [name for name in (text, "label") if name not in columns]
        if absent:
            sys.exit(f"{path}, line 1: no column {absent[0]!r}, only {', '.join(columns)}")
        rows = list(reader)
    if not rows:
        sys.exit(f"{path}: no rows")
    pairs = [row[pair] for row in rows] if pair in columns else None
    return Rows([row[text] for row in rows], pairs, [row["label"] for row in rows])


def write_result(job: Job, result: dict[str, Any]) -> None:
    """Write the result in one step; refuses answers that are not one for each test row, or of the wrong kind."""
    answers = result["answers"]
    if len(answers) != len(job.test.texts):
        sys.exit(f"{len(answers)} answers for {len(job.test.texts)} test rows")
    for number, one in enumerate(answers, 1):
        if job.task == "classify" and not isinstance(one, str):
            sys.exit(f"the answer to test row {number} is {one!r}, expected a label as text")
        if job.task != "classify" and not (isinstance(one, float) and math.isfinite(one)):
            sys.exit(f"the answer to test row {number} is {one!r}, expected a finite number")
    job.out.parent.mkdir(parents=True, exist_ok=True)
    staging = job.out.with_name(f".{job.out.name}.{os.getpid()}")
    staging.write_text(json.dumps(result, ensure_ascii=False) + "\n", encoding="utf-8")
    staging.replace(job.out)


def _cpu_seconds() -> float:
    """CPU time of this process and of the children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
