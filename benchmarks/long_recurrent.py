"""Memory of a recurrent classifier on documents of 1,000, 10,000 and 100,000 tokens: to answer, and to learn from.

Each is measured in a process of its own, with a model of half the published size: the peak of its memory while a
document is classified, and while the model takes a training step on it. The document is read in pieces, and gradients
come from the last of them, so the peaks should hardly differ: `ratio` is the highest over the lowest, of either.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import TINY, arguments, finish, write_page

"""Whether a tiny model is taken: for a sample that runs anywhere."""
LENGTHS = (1_000, 10_000, 100_000)
MARK = 1.1
SIZES = {"vocab_size": 30_000, "embedding_size": 200, "hidden_size": 576}
if TINY:
    SIZES = {"vocab_size": 1000, "embedding_size": 16, "hidden_size": 32}


def measure(kind: str, tokens: int) -> None:
    """Classify a document in this process, or learn from it, and print what it took."""
    import torch

    from warmstart.models.recurrent.config import AwdLstmConfig
    from warmstart.models.recurrent.heads import AwdLstmForSequenceClassification

    torch.manual_seed(0)
    model = AwdLstmForSequenceClassification(AwdLstmConfig(num_labels=2, **SIZES))
    ids = torch.randint(5, SIZES["vocab_size"], (1, tokens))
    if kind == "learn":
        optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-3)
        model(ids[:, :100], labels=torch.tensor([1])).loss.backward()  # the gradients and the optimizer's state
        optimizer.step()
    else:
        model.eval()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = _memory("VmRSS")
    if kind == "learn":
        model(ids, labels=torch.tensor([1])).loss.backward()
        optimizer.step()
    else:
        with torch.inference_mode():
            model(ids)
    print(json.dumps({"before": round(before, 1), "peak": round(_memory("VmHWM"), 1)}))


def _memory(name: str) -> float:
    """A figure of this process's memory, in megabytes, as Linux tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def main() -> None:
    """Measure and report."""
    if len(sys.argv) == 4 and sys.argv[1] == "--measure":
        return measure(sys.argv[2], int(sys.argv[3]))
    args = arguments(__doc__ or "", LENGTHS[-1], "tokens of the longest document")
    lengths = [length for length in LENGTHS if length < args.n] + [args.n]
    peaks: dict[str, dict[int, Any]] = {}
    for kind in ("classify", "learn"):
        for length in lengths:
            command = [sys.executable, __file__, "--measure", kind, str(length)]
            ended = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks.setdefault(kind, {})[length] = json.loads(ended.stdout)["peak"]
    ratios = {kind: round(max(of.values()) / min(of.values()), 4) for kind, of in peaks.items()}
    figures = {"ratio": max(ratios.values()), "mark": MARK, **{f"{kind}_mb": of for kind, of in peaks.items()}}
    if args.write:
        write_page("long-recurrent", "Documents of any length", "make bench-long-recurrent", _page(figures, lengths))
    finish(figures)
    return None


def _page(figures: dict[str, Any], lengths: list[int]) -> str:
    rows = "\n".join(
        f"| {length:,} | {figures['classify_mb'][length]:,.0f} | {figures['learn_mb'][length]:,.0f} |"
        for length in lengths
    )
    return (
        f"Memory does not grow with the document: over {min(lengths):,} to {max(lengths):,} tokens, the highest "
        f"peak is **{figures['ratio']:.2f} times** the lowest, where at most {figures['mark']} is wanted.\n\n"
        "The highest memory of a process that classifies one document with an AWD-LSTM of half the published size (3 × "
        "576 over 200, 30,000 words), and of one that takes a training step on it, in MB:\n\n"
        f"| tokens | classify | learn |\n| ---: | ---: | ---: |\n{rows}"
    )


if __name__ == "__main__":
    main()
