"""What thresholds per label are worth: clinc150 as a multi-label set, two requests joined to one text.

A linear probe on frozen features of all-MiniLM-L6-v2 is trained once; the thresholds are chosen on its dev rows and
measured on its test rows.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import TINY, arguments, finish, weights, write_page
from set_files import OPEN

JOINED = 0.6
"""The share of texts that are two requests; the others are one."""
WAYS: dict[str, dict[str, Any]] = {
    "0.5 for every label": {},
    "chosen for F1": {"threshold_metric": "f1"},
    "chosen for precision 0.9": {"threshold_metric": "precision", "threshold_target": 0.9},
    "chosen for recall 0.9": {"threshold_metric": "recall", "threshold_target": 0.9},
}
Rows = list[dict[str, Any]]


def joined(requests: list[tuple[str, str]], count: int, seed: int) -> Rows:
    """Texts with one or two labels, made of requests and their labels."""
    drawn = random.Random(seed)
    rows: Rows = []
    while len(rows) < count:
        chosen = drawn.sample(requests, 2 if drawn.random() < JOINED else 1)
        text = drawn.choice([", and ", ". ", "; also "]).join(text for text, _ in chosen)
        rows.append({"text": text, "label": sorted({label for _, label in chosen})})
    return rows


def clinc150(n: int) -> dict[str, Rows]:
    """Rows made of the set's own train, dev and test requests, so that no request is in two of them."""
    parts = json.loads((OPEN / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    sizes = {"train": n, "dev": n // 2, "test": n // 2}
    return {
        part: joined(list(map(tuple, parts["val" if part == "dev" else part])), size, seed)
        for seed, (part, size) in enumerate(sizes.items())
    }


def made_up(n: int) -> dict[str, Rows]:
    """Rows that a tiny model learns."""
    from small import reviews

    return {
        part: joined(reviews(200, start), n, start) for part, start in {"train": 0, "dev": 300, "test": 600}.items()
    }


def measure(parts: dict[str, Rows], encoder: str) -> dict[str, Any]:
    """Train once, choose thresholds in each way on the dev rows, and measure each on the test rows."""
    import warmstart
    from warmstart.recipe.recipe import LINEAR_PROBE

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, rows in parts.items():
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")
        files = {f"data.{part}": str(folder / f"{part}.jsonl") for part in parts}
        task = {"name": "classify", "multi_label": True, **WAYS["chosen for F1"]}
        run = warmstart.fit(model=encoder, task=task, out=folder / "run", **files, **LINEAR_PROBE)
        model = warmstart.load(run.folder)
        answers = {part: model.predict([row["text"] for row in parts[part]]) for part in ("dev", "test")}
        figures = {way: scores(model.task, options, parts, answers) for way, options in WAYS.items()}
        assert abs(figures["chosen for F1"]["micro_f1"] - run.metrics["test"]["micro_f1"]) < 1e-9
    return {
        "rows": {part: len(rows) for part, rows in parts.items()},
        "labels": len(model.task.labels),
        "ways": figures,
    }


def scores(task: Any, options: dict[str, Any], parts: dict[str, Rows], answers: dict[str, Any]) -> dict[str, Any]:
    """The metrics on the test rows with thresholds chosen in one way; under `dev`, on the rows they are chosen by."""
    plain = task.options_class(multi_label=True, **options)
    fresh = type(task)(plain, False, task.labels, None)
    tuned = fresh.tune({"label": [row["label"] for row in parts["dev"]]}, answers["dev"])
    return {**on_rows(tuned, parts["test"], answers["test"]), "dev": on_rows(tuned, parts["dev"], answers["dev"])}


def on_rows(task: Any, rows: Rows, answers: Any) -> dict[str, float]:
    """The metrics on rows, with the task's thresholds; precision and recall are over all labels of all rows."""
    decided = [task._answer(list(answer["probabilities"].values())) for answer in answers]
    truth = [set(row["label"]) for row in rows]
    given = [set(answer["labels"]) for answer in decided]
    right = sum(len(gold & labels) for gold, labels in zip(truth, given, strict=True))
    return {
        **task.compute_metrics({"label": [row["label"] for row in rows]}, decided),
        "precision": right / max(1, sum(map(len, given))),
        "recall": right / max(1, sum(map(len, truth))),
    }


def page(figures: dict[str, Any]) -> str:
    """The measurement in words and a table."""
    columns = ("micro_f1", "macro_f1", "exact_match", "precision", "recall")
    lines = [
        f"| {way} | " + " | ".join(f"{values[name]:.3f}" for name in columns) + " |"
        for way, values in figures["ways"].items()
    ]
    rows = figures["rows"]
    each = rows["dev"] * (1 + JOINED) / figures["labels"]
    fixed, chosen = figures["ways"]["0.5 for every label"], figures["ways"]["chosen for F1"]
    return f"""
A threshold for each label, chosen for F1 on dev rows, lifts macro F1 from {fixed["macro_f1"]:.3f} to
**{chosen["macro_f1"]:.3f}**, while the share of rows with all labels right goes from {fixed["exact_match"]:.3f} to
{chosen["exact_match"]:.3f}.

A text is one request of clinc150, or with a probability of {JOINED:.0%} two of them, joined; its labels are their
intents, {figures["labels"]} in all. There are {rows["train"]:,} training, {rows["dev"]:,} dev and {rows["test"]:,} test
texts, made of the set's own train, validation and test requests. A linear probe on frozen features of
all-MiniLM-L6-v2 is trained once. The thresholds of each line are chosen on the dev rows (`task.threshold_metric`,
`task.threshold_target`), and measured on the test rows.

| threshold | micro F1 | macro F1 | exact match | precision | recall |
| --- | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

Precision and recall are over all labels of all rows. On the dev rows, of which {each:.0f} on average have a label, each
label reaches its target if it can; on other rows the labels together fall short of it. A threshold is chosen for each
label by itself, so the share of rows whose labels are all right (exact match) need not rise with F1.
"""


def main() -> None:
    """Measure and report; small and made-up with WARMSTART_BENCH_TINY."""
    args = arguments(__doc__ or "", 6000, "training texts; half as many dev and test texts each")
    if TINY:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
        from tiny import save_tiny

        with tempfile.TemporaryDirectory() as folder:
            figures = measure(made_up(args.n), str(save_tiny(Path(folder) / "encoder")))
    else:
        figures = measure(clinc150(args.n), weights("minilm"))
    if args.write:
        write_page("thresholds", "What choosing per label is worth", "make results-thresholds", page(figures))
    finish(figures)


if __name__ == "__main__":
    main()
