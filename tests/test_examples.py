"""Every script in examples/ runs: `python examples/X.py ENCODER CSV`, on a tiny encoder and the shipped messages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_runs(script, encoder, tmp_path):
    command = [sys.executable, str(script), encoder, str(ROOT / "examples" / "messages.csv")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_there_are_examples():
    assert SCRIPTS
