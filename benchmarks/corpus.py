"""Resident memory of a pre-training on a corpus, and on one ten times as large: texts stay on disk, so it is the same.

The model is tiny, and its memory is in both figures.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import ROOT, arguments, finish, write_page
from memory import WORDS, peak

TIMES = 10


def write_documents(path: Path, documents: int) -> None:
    """Documents of 20 to 200 words, all distinct, a blank line between them."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(documents):
            file.write(" ".join(draw.choices(WORDS, k=draw.randint(20, 200))) + f" {number}\n\n")


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 20_000, "documents of the smaller corpus")
    sys.path.insert(0, str(ROOT / "tests"))
    from tiny import save_tiny

    found, sizes = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_tiny(folder / "model")
        for documents in (args.n, TIMES * args.n):
            path = folder / f"corpus-{documents}.txt"
            write_documents(path, documents)
            sizes[documents] = path.stat().st_size
            options = ("--task", "masked", "--max-tokens", "64", "--set", "data.split.test=0")
            found[documents] = peak(path, model, folder, *options)
    small, large = found[args.n], found[TIMES * args.n]
    figures = {
        "documents": args.n,
        "mb_corpus": [round(size / 1e6, 1) for size in sizes.values()],
        "mb_own": [round(1000 * one["own"]) for one in (small, large)],
        "mb_peak": [round(1000 * one["rss"]) for one in (small, large)],
        "ratio_own": round(large["own"] / small["own"], 3),
    }
    if args.write:
        write_page("corpus", "Memory of a growing corpus", "make bench-corpus", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    small, large = figures["mb_own"]
    return (
        f"`warmstart fit corpus.txt --task masked --max-steps 5` on a corpus of {figures['mb_corpus'][0]} MB "
        f"({figures['documents']:,} documents) takes {small:,} MB of private memory, and {large:,} MB on a corpus ten "
        f"times as large ({figures['mb_corpus'][1]} MB): **{figures['ratio_own']} times** as much. Both include the "
        "libraries and a tiny model. Including pages of memory-mapped files, which the operating system reclaims when "
        f"it needs them, the peaks are {figures['mb_peak'][0]:,} and {figures['mb_peak'][1]:,} MB."
    )


if __name__ == "__main__":
    main()
