"""Memory of finding answers in whole articles: the longest ones beside the shortest ones of one data set.

Each is predicted in a process of its own, with the same model and the same number of windows a batch. A context costs
what its tokens and its few best candidates take, so the peaks should hardly differ.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import ROOT, SHARED, TINY, arguments, finish, weights, write_page

ARTICLES = SHARED / "data" / "open" / "covidqa_early" / "data" / "question-answering" / "200423_covidQA.json"
"""Whether a tiny model and made-up articles are taken: for a sample that runs anywhere."""
BATCH = 16
WORDS = ("the", "film", "story", "actor", "was", "very", "not", "good", "bad", "great", "boring", "and", "london")
MARK = 1.2


def questions() -> list[dict[str, str]]:
    """A question of each article, the shortest article first."""
    if TINY:
        draw = random.Random(0)
        made = [" ".join(draw.choices(WORDS, k=size)) for size in (40, 50, 60, 70, 2000, 2500, 3000, 3500)]
        return [{"question": "who was in the film", "context": text} for text in made]
    if not ARTICLES.is_file():
        sys.exit(f"no whole articles beside the checkout ({ARTICLES.name} is wanted), so there is nothing to measure")
    found = json.loads(ARTICLES.read_text(encoding="utf-8"))["data"]
    rows = [
        {"question": paragraph["qas"][0]["question"], "context": paragraph["context"]}
        for article in found
        for paragraph in article["paragraphs"]
    ]
    return sorted(rows, key=lambda row: len(row["context"]))


def model(folder: Path) -> Path:
    """A model for answers, hardly trained: its memory is what a trained one's is."""
    import warmstart

    if TINY:
        sys.path.insert(0, str(ROOT / "tests"))
        from tiny import save_tiny

        encoder = str(save_tiny(folder / "encoder"))
    else:
        encoder = weights("minilm")
    file = folder / "train.jsonl"
    row = {"question": "who was it", "context": "it was bob", "answers": [{"text": "bob", "start": 7}]}
    file.write_text(json.dumps(row) + "\n")
    said = {"training.max_steps": 1, "data.split.test": 0, "window.max_tokens": 64 if TINY else 384}
    return warmstart.fit(model=encoder, task="span", train=str(file), out=folder / "run", **said).folder


def predict(run: str, rows: str) -> None:
    """Predict in this process, and print what it took."""
    import warmstart

    predictor = warmstart.load(run)
    asked = json.loads(Path(rows).read_text(encoding="utf-8"))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on: loading a model has its own
    before = _memory("VmRSS")
    answers = predictor.predict(asked, batch_size=BATCH)
    peak = _memory("VmHWM")
    right = sum(
        row["context"][one["start"] : one["end"]] == one["answer"] for row, one in zip(asked, answers, strict=True)
    )
    columns = {name: [row[name] for row in asked] for name in asked[0]}
    windows = len(predictor.task.encode(columns, predictor.tokenizer, predictor.window))
    characters = sum(len(row["context"]) for row in asked) // len(asked)
    print(json.dumps({"characters": characters, "windows": windows, "right": right, "before": before, "peak": peak}))


def _memory(name: str) -> float:
    """A figure of this process's memory, in megabytes, as Linux tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def measured(run: Path, rows: list[dict[str, str]], folder: Path) -> dict[str, Any]:
    """The memory of predicting rows, in megabytes, in a process of its own."""
    path = folder / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    code = f"import long; long.predict({str(run)!r}, {str(path)!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT / "benchmarks")])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 12, "articles, the longest ones and the shortest ones")
    rows = questions()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = model(folder)
        short, long = measured(run, rows[: args.n], folder), measured(run, rows[-args.n :], folder)
    figures = {
        "articles": args.n,
        **{f"{key}_{kind}": round(found[key]) for kind, found in (("short", short), ("long", long)) for key in found},
        "ratio": round(long["peak"] / short["peak"], 3),
    }
    if args.write:
        write_page("long", "Memory of answers in long texts", "make bench-long", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {kind} | {figures[f'characters_{kind}']:,} | {figures[f'windows_{kind}']:,} | {figures[f'peak_{kind}']:,} "
        f"| {figures[f'peak_{kind}'] - figures[f'before_{kind}']:,} |"
        for kind in ("short", "long")
    )
    return (
        f"With one question on each of the {figures['articles']} longest articles of covidqa_early, the task `span` "
        f"takes **{figures['ratio']} times** the peak resident memory that it takes on as many of the shortest ones; "
        f"the target is at most {MARK}. The encoder is all-MiniLM-L6-v2 with windows of 384 tokens, {BATCH} per batch; "
        f"each figure was measured in a separate process, which did nothing else.\n\n"
        "| articles | characters, mean | windows | peak, MB | above the loaded model, MB |\n"
        f"| --- | ---: | ---: | ---: | ---: |\n{rows}\n\n"
        f"Of {2 * figures['articles']} answers, {figures['right_short'] + figures['right_long']} are exactly "
        "the characters of the article between their start and end."
    )


if __name__ == "__main__":
    main()
