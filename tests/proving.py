"""A small sample of a proof or a benchmark, run as its `make` target runs it."""

import json
import os
from pathlib import Path

import pytest

from processes import finish

ROOT = Path(__file__).resolve().parents[1]


def figures(python: Path, folder: str, name: str, n: int, *more: str, **environment: str) -> dict:
    """The figures that a script ends with."""
    path = f"{ROOT / 'benchmarks'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [python, ROOT / folder / f"{name}.py", "--n", str(n), *more]
    done = finish(command, env={**os.environ, "PYTHONPATH": path, **environment})
    if "unshare" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this machine allows no mount namespace of one's own")
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict = json.loads(done.stdout.splitlines()[-1])
    return found
