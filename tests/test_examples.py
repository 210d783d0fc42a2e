"""Every script under examples/ runs as it stands, on a tiny encoder."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

import warm

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name != "start.py")


@pytest.fixture(scope="module")
def path():
    """The PATH with a `python` whose heavy libraries are imported already."""
    # A socket's path must be short, which pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="warm-") as short, warm.start(Path(short) / "s") as commands:
        yield f"{commands}:{os.environ['PATH']}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(script, path, encoder, tmp_path):
    command = ["/usr/bin/env", "python", str(script), encoder, str(FOLDER / "messages.csv")]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert done.stdout.strip()
