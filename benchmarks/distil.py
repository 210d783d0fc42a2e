"""Students with and without a teacher: one labelled row for ten that the teacher alone has answered.

    make results-distil [N=seeds] [ARGS="--sets banking77 --teachers e5-small --students minilm"]

Teachers are fine-tuned on the labelled rows. A student is another encoder, or the teacher's own 3 or 6 layers; it
learns the labelled rows alone (`without`), or the teacher's answers too (`with`). What has ended is kept, so that a
stopped measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from itertools import groupby, product
from pathlib import Path
from typing import Any

import kept
from common import KEPT_WORK, TINY, finish, write_page
from distil_page import RATIO, SEEDS, page, pairs, picture
from fitted import encoder, fit_once
from set_files import MEASURE, OPEN, Rows, candidates, categories, tabbed
from tables import Lines, chosen

CACHE = KEPT_WORK / ("distil-tiny" if TINY else "distil")
SPEED_ROWS = 500
"""Test rows whose answers are timed."""
TEACHERS = ("mpnet-base", "e5-small")
STUDENTS = ("minilm", "own-3", "own-6")
Row = dict[str, Any]


def banking77() -> tuple[list[Row], list[Row]]:
    """Messages to a bank with 77 intents."""
    train, test = (categories(OPEN / "banking77" / "banking_data" / f"{part}.csv") for part in ("train", "test"))
    return _labelled(train), _labelled(test)


def film() -> tuple[list[Row], list[Row]]:
    """Sentences of film reviews."""
    train, test = (tabbed(MEASURE / "rt-polarity" / f"{part}.tsv") for part in ("train", "test"))
    return _labelled(train), _labelled(test)


def conll() -> tuple[list[Row], list[Row]]:
    """Sentences of CoNLL-2003, with their words and entities."""
    from warmstart import tasks
    from warmstart.data.findings import Findings
    from warmstart.data.read import iter_rows
    from warmstart.data.source import Source

    parts = []
    for name in ("eng.train", "eng.testb"):
        source = Source((str(MEASURE / "conll2003_en" / name),), format="conll")
        rows = iter_rows(source, tasks.schema_of("tag", {}), Findings())
        parts.append([{name: row[name] for name in ("text", "words", "entities")} for row in rows])
    return parts[0], parts[1]


def wikiqa() -> tuple[list[Row], list[Row]]:
    """Questions of WikiQA that have an answer, with the sentences that may be it: an entry for each question."""
    parts = (
        [list(rows) for _, rows in groupby(candidates(MEASURE / "wikiqa" / f"{part}.txt"), _query)]
        for part in ("train", "test")
    )
    train, test = ([{"rows": rows} for rows in part if any(row["label"] for row in rows)] for part in parts)
    return train, test


def _query(row: Row) -> str:
    return str(row["query"])


SETS: dict[str, tuple[str, int, Callable[[], tuple[list[Row], list[Row]]]]] = {
    "banking77": ("classify", 770, banking77),
    "rt-polarity": ("classify", 800, film),
    "conll2003": ("tag", 1000, conll),
    "wikiqa": ("rank", 79, wikiqa),
}
"""Each set with its task, its number of labelled rows (for rank, of queries), and its training and test rows."""


def files(name: str) -> dict[str, str]:
    """The files of a set: labelled and unlabelled training rows, which no seed changes, and test rows."""
    _, count, read = SETS[name]
    paths = {part: CACHE / "data" / f"{name}-{part}.jsonl" for part in ("train", "texts", "test")}
    if not all(path.is_file() for path in paths.values()):
        train, test = read()
        random.Random(name).shuffle(train)
        first = {row["label"]: number for number, row in reversed(list(enumerate(train))) if "label" in row}
        # A row of every label comes first, so that all are among the labelled rows.
        train = [train[number] for number in first.values()] + [
            row for number, row in enumerate(train) if number not in set(first.values())
        ]
        count = max(40, len(first)) if TINY else count
        inputs = [
            {key: row[key] for key in ("text", "words", "query", "document") if key in row}
            for row in _rows(train[count : count + RATIO * count])
        ]
        _write(paths["train"], _rows(train[:count]))
        _write(paths["texts"], inputs)
        _write(paths["test"], _rows(test[:: max(1, len(test) // 40)] if TINY else test))
    return {part: str(path) for part, path in paths.items()}


def _rows(some: list[Row]) -> list[Row]:
    """Rows as they are, or those of some queries."""
    return [row for one in some for row in one.get("rows", [one])]


def measure(name: str, teacher: str, student: str, seed: int) -> dict[str, Any]:
    """The teacher's figures, and those of a student with it and without it."""
    data = files(name)
    taught = _fit(name, f"{name}-{teacher}-{seed}", data, seed, {"model": encoder(teacher, CACHE)})
    if student.startswith("own-"):
        layers = {"num_layers": 2 if TINY else int(student.removeprefix("own-")), "layer_choice": "spread"}
        start: dict[str, Any] = {"model": str(taught / "model"), "layers": layers}
    else:
        start = {"model": encoder(student, CACHE)}
    key = f"{name}-{teacher}-{student}-{seed}"
    stage = {"distil": {"teacher": str(taught), "texts": data["texts"]}}
    alone = _fit(name, f"{key}-without", data, seed, start)
    learned = _fit(name, f"{key}-with", data, seed, {**start, "stages": [stage]})
    runs = {"teacher": taught, "without": alone, "with": learned}
    figures: dict[str, Any] = {who: _figures(run, data["test"]) for who, run in runs.items()}
    return figures | {f"over {other}": _over_rows(learned, runs[other]) for other in ("without", "teacher")}


def _over_rows(run: Path, other: Path) -> list[float]:
    """The 95% interval of the difference of two runs over test rows, in points, and its mean."""
    from warmstart.evaluation.run_result import read_result
    from warmstart.evaluation.statistics import difference_over_rows

    one = difference_over_rows(*(read_result(folder, "", 0).scores for folder in (run, other)))
    return [100 * one.low, 100 * one.high, 100 * one.mean]


def _fit(name: str, key: str, data: dict[str, str], seed: int, fields: dict[str, Any]) -> Path:
    """A run, trained where it is not there yet."""
    task = SETS[name][0]
    columns = {"data.columns.words": "words"} if task == "tag" else {}
    length = {"training": {"max_steps": 4}} if TINY else {}
    return fit_once(
        CACHE / "runs" / key,
        Lines(key),
        task=task,
        seed=seed,
        **{"data.train": data["train"], "data.test": data["test"]},
        **columns,
        **length,
        **fields,
    )


def _figures(run: Path, test: str) -> dict[str, Any]:
    """A run's headline, and how many texts it answers in a CPU second."""
    import warmstart
    from warmstart.evaluation.run import RunFolder

    rows = map(json.loads, Path(test).read_text(encoding="utf-8").splitlines())
    texts = [row["text"] if "text" in row else (row["query"], row["document"]) for row in rows][:SPEED_ROWS]
    predictor = warmstart.load(run)
    predictor.predict(texts[:32])
    started = time.process_time()
    predictor.predict(texts)
    seconds = time.process_time() - started
    score = RunFolder(run).metrics["test"][predictor.task.headline]
    return {"score": score, "rows_per_second": len(texts) / seconds}


def _labelled(rows: Rows) -> list[Row]:
    return [{"text": text, "label": label} for label, text in rows]


def _write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Measure what is missing, then report on all that is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=SEEDS, help=f"seeds (default {SEEDS})")
    parser.add_argument("--sets", default="", help=f"some of {','.join(SETS)}, with commas between them (default all)")
    parser.add_argument("--teachers", default="", help=f"some of {','.join(TEACHERS)} (default all)")
    parser.add_argument("--students", default="", help=f"some of {','.join(STUDENTS)} (default all)")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page in docs/results/")
    args = parser.parse_args()
    figures = kept.read("distil") if args.write else {}
    for seed in range(args.n):
        for name in chosen(args.sets, SETS):
            for teacher in chosen(args.teachers, TEACHERS):
                for student in chosen(args.students, STUDENTS):
                    key = f"{name} {teacher} {student} {seed}"
                    if key not in figures:
                        figures[key] = measure(name, teacher, student, seed)
                        if args.write:
                            figures |= kept.read("distil")  # another process may measure other sets
                            kept.write("distil", figures)
    figures |= kept.read("distil") if args.write else {}
    if args.write and not TINY:
        measured = pairs(figures)
        picture(measured)
        text = page(measured, set(product(SETS, TEACHERS, STUDENTS)))
        write_page("distil", "Students with and without a teacher", "make results-distil", text)
    finish(figures)


if __name__ == "__main__":
    main()
