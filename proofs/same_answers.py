"""Every task gives the same answers on every surface: engines of an export, Ray and a server beside PyTorch.

Each case of the contract tests is learned by heart by a tiny model and asked its own rows, varied by words put behind
them, so that lengths and neighbours differ. Labels, places and texts must be equal, numbers within 1e-4, or, where
PyTorch computes as well, as close as rounding in other batches leaves them.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from common import ROOT, arguments, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

from contracts.test_every_task import CASES, fit
from tiny import WORDS, save_tiny
from warmstart.deploy.export.compare_answers import CLOSE, AnswerComparison, compare_answers
from warmstart.experiments.export_run import export
from warmstart.inference.predictor import Predictor

Answers = Sequence[Mapping[str, Any]]
REQUEST = 50
"""Texts of a request."""
MOST_WORDS = 40
"""Words that may be put behind a text."""


def by_engine(name: str) -> Callable[[Path, list[Any]], Answers]:
    """Answers of a run by one of its engines."""
    return lambda run, rows: Predictor.load(run, engine=name).predict(rows)


def by_ray(run: Path, rows: list[Any]) -> Answers:
    """Answers of a worker of Ray, read from the files that it wrote."""
    import pyarrow.parquet as pq

    from warmstart.data.source import Source
    from warmstart.deploy.label.label_corpus import label

    task = Predictor.load(run).task
    inputs = [task.parse_input(*each) for each in _numbered(rows)]
    asked = [{name: value for name, value in row.items() if value is not None} for row in inputs]
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "rows.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in asked), encoding="utf-8")
        columns = {name: name for row in asked for name in row if name in task.input_columns}
        reading = Source((str(source),), columns)
        manifest = label(run, reading, Path(place) / "out", workers=1, cpus=2, rows_per_shard=500)
        assert manifest["answered"] == len(rows), manifest
        files = sorted((Path(place) / "out").glob("group-*/[0-9]*.parquet"))
        found = [row for file in files for row in pq.read_table(file).to_pylist()]
    return [{name: row[name] for name in task.answer_schema} for row in found]


def by_server(run: Path, rows: list[Any]) -> Answers:
    """Answers over HTTP."""
    from server import serving

    found: list[Any] = []
    with serving(run) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port)
        for start in range(0, len(rows), REQUEST):
            body = json.dumps({"texts": rows[start : start + REQUEST]})
            client.request("POST", "/v1/predict", body, {"content-type": "application/json"})
            reply = client.getresponse()
            said = json.loads(reply.read())
            assert reply.status == 200, said
            found += said["answers"]
        client.close()
    return found


def _numbered(rows: list[Any]) -> list[tuple[Any, int]]:
    return [(row, number) for number, row in enumerate(rows, 1)]


SURFACES: dict[str, Callable[[Path, list[Any]], Answers]] = {
    "onnx": by_engine("onnx"),
    "openvino": by_engine("openvino"),
    "alone": lambda run, rows: Predictor.load(run).predict(rows, batch_size=1),
    "ray": by_ray,
    "server": by_server,
}
"""What is held against the answers of PyTorch: a name, and what answers rows by a run with an export."""


def varied(given: Any, words: list[str]) -> Any:
    """A question with words behind its text."""
    tail = "".join(f" {word}" for word in words)
    if isinstance(given, str):
        return given + tail
    if isinstance(given, Mapping):
        name = next(one for one in ("context", "document", "text") if one in given)
        return {**given, name: given[name] + tail}
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return [*given, *words]
    first, *others = given
    return (first + tail, *others)


def questions(name: str, count: int) -> list[Any]:
    """The rows of a case, asked and varied again and again; the first time as they stand."""
    draw, known = random.Random(name), WORDS.split()
    case = CASES[name]
    plain = [*case.asked, case.long, *case.rows]
    found = list(plain)
    while len(found) < count:
        given = draw.choice([*case.asked, *case.rows])
        found.append(varied(given, draw.choices(known, k=draw.randint(0, MOST_WORDS))))
    return found[: max(count, len(plain))]


def prove(name: str, encoder: str, folder: Path, count: int) -> dict[str, AnswerComparison]:
    """How the answers of each surface differ from PyTorch's in one case."""
    run = fit(encoder, name, folder / "run").folder
    export(run, rows=CASES[name].rows)
    rows = questions(name, count)
    expected = Predictor.load(run).predict(rows)
    wanted = os.environ.get("WARMSTART_PROOF_SURFACES", ",".join(SURFACES)).split(",")
    return {one: compare_answers(expected, aligned(expected, SURFACES[one](run, rows))) for one in wanted}


def aligned(expected: Answers, found: Answers) -> Answers:
    """Answers out of a table as they were before: what is not there is null in it, and lists are JSON text."""
    return [
        {
            name: json.loads(value) if isinstance(value, str) and isinstance(one.get(name), list | dict) else value
            for name, value in two.items()
            if value is not None or name in one
        }
        for one, two in zip(expected, found, strict=True)
    ]


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 2000, "rows of each case")
    found: dict[str, dict[str, AnswerComparison]] = {}
    with tempfile.TemporaryDirectory() as place:
        os.environ["WARMSTART_CACHE"] = f"{place}/cache"
        # Ten times the usual first weights, as in the contract tests: else a tiny network learns nothing by heart.
        encoder = str(save_tiny(Path(place) / "encoder", initializer_range=0.2))
        some = os.environ.get("WARMSTART_PROOF_CASES")
        for number, name in enumerate(some.split(",") if some else CASES):
            found[name] = prove(name, encoder, Path(place) / str(number), args.n)
            print(name, found[name], flush=True)
    every = [same for case in found.values() for same in case.values()]
    figures: dict[str, Any] = {"cases": len(found), "answers": sum(one.rows for one in every)}
    figures["labels_differ"] = sum(one.differ for one in every)
    for surface in next(iter(found.values())):
        figures[f"{surface}_worst"] = max(case[surface].worst for case in found.values())
    if args.write:
        write_page("same-answers", "The same answers on every surface", "make proof-same-answers", _page(found))
    finish(figures)


def _page(found: Mapping[str, Mapping[str, AnswerComparison]]) -> str:
    others = [one for case in found.values() for name, one in case.items() if name != "alone"]
    lines = [
        f"Every engine, Ray and the server give the same answers: **{sum(one.differ for one in others)} of "
        f"{sum(one.rows for one in others):,}** differ, and numbers are at most "
        f"{max(one.worst for one in others):.1e} apart.",
        "",
        "In every case of the contract tests, a tiny model memorizes its rows and then predicts them again, with words",
        "appended to the texts. Each way to predict is compared with PyTorch in fp32 on the same rows: `differ` counts",
        "predictions with another label, position or text, and `apart` is the largest difference between two numbers,",
        f"at most {CLOSE:g} for other engines. `alone` is PyTorch itself with one row at a time, which shows the",
        "effect of rounding: with other rows or other padding in a batch, numbers are summed in another order, so they",
        "cannot be equal to the last digit. The initial weights are ten times as large as usual, so that a tiny model",
        "can memorize its rows; this also makes the sums and their rounding errors larger.",
        "",
        "| case | rows | " + " | ".join(f"{one}: differ | apart" for one in SURFACES) + " |",
        "| --- | --- |" + " --- | --- |" * len(SURFACES),
    ]
    for name, case in found.items():
        cells = " | ".join(f"{one.differ} | {one.worst:.1e}" for one in case.values())
        lines.append(f"| {name} | {next(iter(case.values())).rows:,} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
