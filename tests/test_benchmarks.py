"""A small sample of each benchmark runs, and ends with its line of JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_overhead_ends_with_its_ratio():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "overhead.py", "--n", "1"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "WARMSTART_BENCH_ROUNDS": "1"},
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["steps"] == 1
    assert figures["ratio"] > 0


def test_training_speed_ends_with_its_ratios():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "train.py", "--n", "40"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "WARMSTART_BENCH_TINY": "1"},
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["imdb"]["rows"] == 40
    assert all(figures[name] > 0 for name in ("ratio_plain", "ratio_bare", "ratio_default", "ratio_frozen_half"))
