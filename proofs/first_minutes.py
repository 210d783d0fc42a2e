"""What people type in their first minutes, right and wrong: each with what must come back, how fast, and the exit code.

A refusal that needs no torch may take a second of CPU. The encoder is a tiny one, and the rows are a few sentences:
what is tried here is the way there, not the model.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, arguments, finish, write_page
from first_minutes_files import write_files
from first_minutes_typed import TYPED, Typed

LIMIT = 1.0
"""Seconds of CPU for a refusal, with the bytecode warm."""
SLACK = 2.0
"""How much longer a sample may take, which is run beside other tests."""


def run(typed: Typed, folder: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """Type it; give what came back, and the seconds of CPU."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "COLUMNS")},
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "WARMSTART_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
        "PYTHONPATH": str(ROOT / "src"),
    }
    if typed.python:
        command = [sys.executable, "-c", typed.python]
    else:
        command = [sys.executable, "-m", "warmstart.cli.main", *typed.words]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=typed.stdin,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prove(typed: Typed, folder: Path, slack: float = 1.0) -> str:
    """What is wrong with what came back, or nothing."""
    done, seconds = run(typed, folder)
    output = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    if done.returncode != typed.code:
        return f"exit code {done.returncode}, expected {typed.code}: {output[-300:]}"
    if missing := [part for part in typed.expect if part not in output]:
        return f"no {missing[0]!r} in: {output[-400:]}"
    if "Traceback" in output:
        return f"a traceback: {output[-300:]}"
    if typed.quick and seconds > LIMIT * slack:
        seconds = min(run(typed, folder)[1] for _ in range(3))  # with warm bytecode, and beside less other work
        if seconds > LIMIT * slack:
            return f"{seconds:.2f} s of CPU, expected at most {LIMIT * slack}"
    return ""


def main() -> None:
    """Type all of it, and report."""
    args = arguments(__doc__ or "", len(TYPED), "things to type")
    faults = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        for typed in TYPED[: args.n]:
            if fault := prove(typed, folder, SLACK if args.n < len(TYPED) else 1.0):
                faults[typed.title] = fault
                print(f"{typed.title}\n  {fault}", flush=True)
    figures = {
        "typed": min(args.n, len(TYPED)),
        "as_expected": min(args.n, len(TYPED)) - len(faults),
        "refusals_within_a_second": sum(typed.quick for typed in TYPED[: args.n]),
        "found_by_trying": sum(typed.own for typed in TYPED[: args.n]),
    }
    if args.write:
        write_page("first-minutes", "The first minutes", "make proof-first-minutes", _page(figures, faults))
    finish(figures)
    sys.exit(bool(faults))


def _page(figures: dict[str, int], faults: dict[str, str]) -> str:
    rows = "\n".join(
        f"| `{typed.title}` | {typed.code} | {typed.expect[0] if typed.expect else '–'} | "
        f"{'within 1 s of CPU' if typed.quick else '–'} | {'no' if typed.title in faults else 'yes'} |".replace(
            "\n", " "
        )
        for typed in TYPED
    )
    return (
        f"{figures['typed']} things that people type in their first minutes, {figures['as_expected']} of them answered "
        f"as they should be. {figures['refusals_within_a_second']} are refusals that need no torch.\n\n"
        "| typed | exit code | the answer has | time | as expected |\n| --- | ---: | --- | --- | --- |\n" + rows
    )


if __name__ == "__main__":
    main()
