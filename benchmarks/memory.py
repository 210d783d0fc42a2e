"""Resident memory of `fit --max-steps 5` on many rows of CSV, above the same on a hundred rows.

The model is tiny, and its memory is in both figures; so the difference is what the rows cost.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import ROOT, arguments, finish, write_page

WORDS = ("the", "film", "story", "actor", "was", "very", "not", "good", "bad", "great", "boring", "and", "london")
FEW = 100


def write_rows(path: Path, rows: int) -> None:
    """Synthetic reviews of 5 to 40 words, all distinct."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        file.write("text,label\n")
        for number in range(rows):
            words = " ".join(draw.choices(WORDS, k=draw.randint(5, 40)))
            file.write(f"{words} {number},{'pos' if number % 2 else 'neg'}\n")


def peak(train: Path, model: Path, folder: Path, *more: str) -> dict[str, float]:
    """Run `fit` and give its highest resident memory in GB, all of it and what is its own (not mapped files)."""
    import psutil

    command = [sys.executable, "-m", "warmstart.cli.main", "fit", str(train), *more, "--max-steps", "5"]
    command += ["--model", str(model), "--out", str(folder / f"run-{train.stem}"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or []))
    reader.start()
    found = {"rss": 0.0, "own": 0.0}
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            memory: Any = watched.memory_info()
        except psutil.Error:
            break
        found["rss"] = max(found["rss"], memory.rss / 1e9)
        found["own"] = max(found["own"], (memory.rss - memory.shared) / 1e9)
        time.sleep(0.05)
    reader.join()
    if process.wait():
        sys.exit("".join(errors))
    return found


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 1_000_000, "rows of CSV")
    sys.path.insert(0, str(ROOT / "tests"))
    from tiny import save_tiny

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_tiny(folder / "model")
        found = {}
        for rows in (FEW, args.n):
            path = folder / f"rows-{rows}.csv"
            write_rows(path, rows)
            found[rows] = peak(path, model, folder, "--test", str(folder / f"rows-{FEW}.csv"))
    above = found[args.n]["rss"] - found[FEW]["rss"]
    own = found[args.n]["own"] - found[FEW]["own"]
    figures = {
        "rows": args.n,
        "gb_above_model": round(above, 3),
        "gb_own_above_model": round(own, 3),
        "gb_peak": round(found[args.n]["rss"], 3),
    }
    if args.write:
        write_page("memory", "Memory of a large data set", "make bench-memory", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    return (
        f"`warmstart fit --max-steps 5` on {figures['rows']:,} rows of CSV reaches "
        f"**{figures['gb_above_model']} GB** of resident memory above the same run on {FEW} rows "
        f"({figures['gb_peak']} GB in all, libraries and a tiny model included). Of that, "
        f"{figures['gb_own_above_model']} GB are private memory; the rest are pages of memory-mapped files, which the "
        "operating system reclaims when it needs them.\n\nThe target is at most 2 GB for a million rows."
    )


if __name__ == "__main__":
    main()
