"""rt-polarity with warmstart beside a plain `transformers.Trainer`: same encoder, rate, batch, epochs, precision, rows.

2,000 training rows with three seeds, and all rows with one seed, for MiniLM; all rows for e5-small as well. One row
a training, kept in .cache/, so that a stopped measurement goes on where it was.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import KEPT_WORK, SHARED, arguments, finish, weights, write_page

RATE, BATCH, EPOCHS = 5e-5, 32, 3
DATA = SHARED / "data" / "measure-only" / "rt-polarity"
KEPT = KEPT_WORK / "bench-plain.jsonl"


def ours(model: str, train: Path, seed: int, layers: dict[str, Any] | None = None, **training: Any) -> float:
    """Accuracy of `warmstart.fit`, with settings of `layers` and `training` besides."""
    import warmstart

    with tempfile.TemporaryDirectory() as folder:
        run = warmstart.fit(
            model=model,
            train=str(train),
            test=str(DATA / "test.tsv"),
            text="2",
            label="1",
            seed=seed,
            out=f"{folder}/run",
            layers=layers or {},
            **{
                "data.header": False,
                "training": {
                    "learning_rate": RATE,
                    "batch_size": BATCH,
                    "epochs": EPOCHS,
                    "batching": "random",
                    **training,
                },
            },
        )
        return float(run.metrics["test"]["accuracy"])


def plain(model: str, train: Path, seed: int, bf16: bool = True) -> float:
    """Accuracy of the script one would write with `transformers` alone."""
    import datasets
    import numpy as np
    import transformers

    def rows(path: Path) -> Any:
        pairs = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
        return datasets.Dataset.from_dict({"text": [t for _, t in pairs], "label": [int(n) for n, _ in pairs]})

    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=2, dtype="float32")

    def encode(batch: dict[str, list[Any]]) -> Any:
        return tokenizer(batch["text"], truncation=True, max_length=512)

    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            learning_rate=RATE,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=64,
            num_train_epochs=EPOCHS,
            warmup_steps=0.1,
            weight_decay=0.01,
            seed=seed,
            bf16=bf16,
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model=network,
            args=settings,
            train_dataset=rows(train).map(encode, batched=True, load_from_cache_file=False),
            processing_class=tokenizer,
        )
        trainer.train()
        test = rows(DATA / "test.tsv").map(encode, batched=True, load_from_cache_file=False)
        answers = trainer.predict(test)
    return float((np.argmax(answers.predictions, axis=1) == answers.label_ids).mean())


def plan(n: int) -> list[dict[str, Any]]:
    """What is trained: both sides of each case."""
    cases = [{"model": "minilm", "rows": n, "seed": seed} for seed in range(3)]
    if n == 2000:
        cases += [{"model": name, "rows": 0, "seed": 0} for name in ("minilm", "e5-small")]
    return [{**case, "side": side} for case in cases for side in ("warmstart", "plain")]


def subset(rows: int, folder: Path) -> Path:
    """The training file, or a fixed draw of so many of its rows."""
    if not rows:
        return DATA / "train.tsv"
    lines = (DATA / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    path = folder / "train.tsv"
    path.write_text("".join(random.Random(0).sample(lines, rows)), encoding="utf-8")
    return path


def one(case: dict[str, Any]) -> None:
    """Train one case and keep its accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        train = subset(case["rows"], Path(folder))
        side = ours if case["side"] == "warmstart" else plain
        case["accuracy"] = side(weights(case["model"]), train, case["seed"])
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(case) + "\n")


def measured() -> list[dict[str, Any]]:
    """The cases trained so far."""
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()] if KEPT.exists() else []


def main() -> None:
    """Train what is missing and report."""
    if len(sys.argv) > 1 and sys.argv[1] == "--one":
        one(json.loads(sys.argv[2]))
        return
    args = arguments(__doc__ or "", 2000, "training rows of the seeded part")
    for case in plan(args.n):
        if not any(case.items() <= kept.items() for kept in measured()):
            # A process each, so that no side inherits random state or threads from the other.
            subprocess.run([sys.executable, __file__, "--one", json.dumps(case)], check=True)
    kept = [row for case in plan(args.n) for row in measured() if case.items() <= row.items()]
    if args.write:
        body = _page(kept)
        write_page("plain", "Beside a plain Trainer", "make bench-plain", body)
    seeded = {side: [r["accuracy"] for r in kept if r["rows"] and r["side"] == side] for side in ("warmstart", "plain")}
    figures: dict[str, Any] = {side: round(statistics.mean(found), 4) for side, found in seeded.items()}
    figures["full"] = {f"{r['model']} {r['side']}": round(r["accuracy"], 4) for r in kept if not r["rows"]}
    finish({**figures, "rows": args.n, "seeds": 3})


def _page(kept: list[dict[str, Any]]) -> str:
    sides = {side: [r["accuracy"] for r in kept if r["rows"] and r["side"] == side] for side in ("warmstart", "plain")}
    mean = {side: f"{statistics.mean(a):.4f} (sd {statistics.stdev(a):.4f})" for side, a in sides.items()}
    gap = statistics.mean(sides["warmstart"]) - statistics.mean(sides["plain"])
    lines = [
        f"With the same settings, the accuracy over three seeds is {mean['warmstart']} with warmstart and "
        f"{mean['plain']} with a plain Trainer; the difference is **{gap:+.4f}**.",
        "",
        "Accuracy on the 1,066 test sentences of rt-polarity: `warmstart fit` and a script with "
        f"`transformers.Trainer` alone, both with learning rate {RATE}, batch size {BATCH}, {EPOCHS} epochs, linear "
        "schedule with 10% warm-up, weight decay 0.01 and bf16. The script is in `benchmarks/plain.py`.",
        "",
        "| encoder | training rows | seed | warmstart | plain Trainer |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in kept:
        if row["side"] == "warmstart":
            other = next(r for r in kept if {**row, "side": "plain", "accuracy": 0} == {**r, "accuracy": 0})
            size = f"{row['rows']:,}" if row["rows"] else "9,596 (all)"
            lines.append(
                f"| {row['model']} | {size} | {row['seed']} | {row['accuracy']:.4f} | {other['accuracy']:.4f} |"
            )
    lines += [
        "",
        "One test sentence is 0.0009. Neither side has any piece of the craft switched on: equal settings should "
        "agree, and this page shows whether they do.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
