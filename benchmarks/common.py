"""What the benchmarks share: the machine in words, the closing line of JSON, the results page."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
TINY = bool(os.environ.get("WARMSTART_BENCH_TINY"))
"""Whether a sample of seconds is asked for, with a tiny encoder and few rows."""
KEPT_WORK = Path(os.environ.get("WARMSTART_BENCH_CACHE", ROOT / ".cache"))
"""Where runs are kept, so that a stopped measurement goes on where it was."""


def arguments(text: str, n: int, what: str) -> argparse.Namespace:
    """The options every benchmark takes."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--n", type=int, default=n, help=f"{what} (default {n})")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    return parser.parse_args()


def finish(figures: dict[str, Any]) -> None:
    """End with one line of JSON."""
    print(json.dumps(figures), flush=True)


def timed(work: Callable[[], object]) -> float:
    """CPU seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started


@cache
def weights(name: str) -> str:
    """The folder of a real encoder; leaves, saying why, where there is none."""
    script = SHARED / "weights" / "get.py"
    if not script.is_file():
        sys.exit(f"no real encoders beside the checkout ({name} is wanted), so there is nothing to measure with")
    return subprocess.run([str(script), name], check=True, capture_output=True, text=True).stdout.strip()


def write_page(name: str, title: str, command: str, body: str) -> None:
    """Write a page of results with what it was measured by, when and on what."""
    path = ROOT / "docs" / "results" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# {title}\n\n{body.strip()}\n\n{provenance(command)}\n", encoding="utf-8")


def provenance(command: str) -> str:
    """Command, date, versions and machine in a sentence."""
    from warmstart.runtime.environment import environment

    found = environment()
    versions = ", ".join(f"{name} {found['versions'][name]}" for name in ("torch", "transformers", "datasets"))
    return (
        f"*Measured by `{command}` on {date.today().isoformat()}: Python {found['python']}, {versions}; "
        f"{found['system']}, {found['processor']}, {os.cpu_count()} cores, {found['threads']} threads.*"
    )
