"""Every script under examples/ runs as it stands, on a tiny encoder."""

import os
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name != "start.py")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(script, commands, encoder, tmp_path):
    command = [commands / "python", str(script), encoder, str(FOLDER / "messages.csv")]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert done.stdout.strip()
