"""Rows stay on disk: `fit` on many rows takes little more memory than on few."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1] / "benchmarks" / "memory.py"


def test_many_rows_take_little_more_memory_than_a_hundred():
    done = subprocess.run([sys.executable, BENCH, "--n", "15000"], capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["rows"] == 15_000
    assert figures["gb_above_model"] < 0.4, figures
