"""The cases of the proof that nothing changed that are more than one training: resuming, two processes, every verb."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unchanged_cases import COMMON, MEASURED, REVIEWS, SAVED, WITH_DEV, fits
from unchanged_inputs import reviews

if TYPE_CHECKING:
    from unchanged_side import Side

ASKED = [text for text, _ in reviews(9, 7000, 7)]
RANKS = "two processes, each rank"
GRADUAL = {**REVIEWS, **SAVED, "layers.unfreeze": "gradual", "layers.unfreeze_every": 3, "learn.average": 2}


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _crash() -> None:
    from unchanged_side import Crash

    raise Crash


def resumed(side: Side) -> None:
    """A training interrupted by SIGKILL, then by SIGTERM, then by an error, resumed each time."""
    outcomes: dict[str, Any] = {"killed by signal": side.killed(5, out="run", **GRADUAL)}
    for name, how in (("stopped", _terminate), ("crashed", _crash)):
        outcomes[name] = side.interrupted(1 if name == "stopped" else 2, how, out="run", **GRADUAL)
    run, alone = side.fit("run", **GRADUAL), side.fit("alone", **GRADUAL)
    both = [(one / "model" / "model.safetensors").read_bytes() for one in (run, alone)]
    side.write_json("stops.json", {**outcomes, "same weights as uninterrupted": both[0] == both[1]})


def two_processes(side: Side) -> None:
    """The same script in two processes, started by torchrun."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    script = str(Path(__file__).with_name("unchanged_side.py"))
    names = sys.argv[1 : sys.argv.index("--cases")] if "--cases" in sys.argv else sys.argv[1:]
    command = [sys.executable, *launcher, script, *names, "--cases", json.dumps([RANKS])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])


def in_each(side: Side) -> None:
    """What each rank runs: batches by length and by tokens, and a loss of several parts."""
    side.fit("by-length", **REVIEWS, **SAVED, **{"learn.batch": 4})
    side.fit("by-tokens", **REVIEWS, **{"learn.batch_tokens": 60})
    task = {"name": "masked", "objective": "mlm+sop", "unit": "word"}
    side.fit("masked", **{"data.train": "texts.txt", "task": task, "window.tokens": 32, "learn.batch": 4})


def by_options(side: Side) -> None:
    """A training given by command-line options alone."""
    sizes = ["--rate", "2e-3", "--epochs", "2", "--batch", "8", "--tokens", "24", "--precision", "fp32", "--seed", "2"]
    files = ["--test", side.path("test.csv"), "--dev", side.path("dev.csv"), "--text", "text", "--label", "label"]
    more = ["--set", "layers.decay=0.9", "--set", "head=new", "--set", "trainer.logging_steps=1"]
    model = ["--model", side.path("bert"), "--task", "classify", "--out", str(side.case / "run")]
    side.run_json("output", "fit", side.path("train.csv"), *model, *files, *sizes, *more)


def shipped(side: Side) -> None:
    """The shipped recipes, each for a few steps."""
    names = {"classify": "train.csv", "tag": "tags.jsonl", "span": "spans.jsonl", "choose": "riddles.jsonl"}
    for name, train in {**names, "score": "scores.csv", "relate": "relations.jsonl", "rank": "judged.jsonl"}.items():
        given = ["--recipe", name, "--model", side.path("bert"), "--max-steps", "3", "--batch", "4"]
        more = ["--precision", "fp32", "--set", "data.split.test=0.3", "--out", str(side.case / name)]
        side.run("fit", side.path(train), *given, *more, "--json")


def sweep(side: Side) -> None:
    """A grid search and a random search.

    A random search seeds each value by the sweep's seed, the trial's number and the field's name, so that it samples
    other values of a field that was renamed: the one here searches fields that keep their names.
    """
    recipe = side.write_recipe("searched", {**COMMON, **WITH_DEV, "learn.max_steps": 3})
    grid = ["--search", "learn.batch=4,8", "--search", "learn.rate=1e-3,3e-3", "--sampler", "grid"]
    side.run_json("grid", "sweep", recipe, *grid, "--out", str(side.case / "grid-search"))
    random = ["--search", "layers.freeze=0,1,2,3", "--search", "seed={low: 0, high: 1000}", "--sampler", "random"]
    side.run_json("random", "sweep", recipe, *random, "--trials", "3", "--out", str(side.case / "random-search"))


def predict(side: Side) -> None:
    """Predictions for texts and files, as JSON and in every file format."""
    run = str(side.fitted("classify"))
    side.run_json("texts", "predict", run, *ASKED)
    side.run_json("abstained", "predict", run, *ASKED, "--least-confidence", "0.75")
    for suffix in ("csv", "jsonl", "parquet"):
        side.run("predict", run, "--file", side.path("test.csv"), "--out", str(side.case / f"answers.{suffix}"))
    side.run_json("pairs", "predict", str(side.fitted("classify pairs")), *ASKED[:4])
    side.run_json("scores", "predict", str(side.fitted("score")), *ASKED)
    side.run_json(
        "tags", "predict", str(side.fitted("tag with CRF")), "alice bob lives in tokyo.", "in paris, bob was good"
    )
    side.run_json(
        "spans", "predict", str(side.fitted("span")), "who", "alice was in the film", "where", "bob lives in tokyo"
    )
    side.run_json("slices", "predict", str(side.fitted("slices, attention pooling")), *(2 * text for text in ASKED))
    side.run_json("ensemble", "predict", str(side.fitted("seeds, an ensemble")), *ASKED)
    side.run_json(
        "endings", "predict", str(side.fitted("choose")), "the film", "it was good", "it was bad", "a boring plot"
    )
    found = side.call("load", str(side.fitted("masked mlm"))).predict(["the [MASK] film was [MASK].", "good [MASK]"])
    side.write_json("fills.json", found)


def search(side: Side) -> None:
    """Semantic search with a bi-encoder, and pairs scored by both encoders."""
    bi, cross = str(side.fitted("rank bi")), str(side.fitted("rank cross"))
    queries = ["where is the film", "who is alice", "the food"]
    side.run_json("found", "predict", bi, *queries, "--documents", side.path("documents.csv"), "--top", "3")
    for name, run in (("bi", bi), ("cross", cross)):
        side.run_json(name, "predict", run, "where is the film", "the film is good", "who is bob", "a book")


def evaluate(side: Side) -> None:
    """Runs evaluated again, on their own test rows and on other files."""
    side.run_json("own", "evaluate", str(side.fitted("classify")))
    side.run_json("other", "evaluate", str(side.fitted("classify")), side.path("dev.csv"))
    side.run_json("tags", "evaluate", str(side.fitted("tag")), side.path("tags.jsonl"))
    side.run_json("spans", "evaluate", str(side.fitted("span")), side.path("spans.jsonl"))
    side.run_json("rank", "evaluate", str(side.fitted("rank cross")), side.path("judged.jsonl"))


def compare(side: Side) -> None:
    """Runs compared with one another."""
    runs = [str(side.fitted(name)) for name in ("classify", "layer-wise learning rates", "mlp head")]
    side.run_json("output", "compare", *runs)


def diagnose(side: Side) -> None:
    """Error analysis, label errors and calibration."""
    run = side.fit(**MEASURED)
    wanted = ["--precision", "0.6", "--abstain", "0.2"]
    side.run_json("output", "diagnose", str(run), *wanted, "--label-errors", "--folds", "2")
    side.run_json("calibrated", "diagnose", str(run), "--calibrate")
    side.run_json("answers", "predict", str(run), *ASKED)
    for name in ("score", "tag", "span with dev", "rank cross", "choose", "relate", "classify several labels"):
        side.run_json(f"{name}", "diagnose", str(side.fitted(name)))


def check(side: Side) -> None:
    """Findings in data files."""
    columns = ["--no-header", "--text", "2", "--label", "1", "--drop", "unlabelled"]
    test = ["--test", side.path("test.tsv"), "--model", side.path("bert"), "--tokens", "16"]
    side.run_json("output", "check", side.path("faulty.tsv"), *columns, *test)
    side.run_json("clean", "check", side.path("train.csv"), "--test", side.path("test.csv"))


def show(side: Side) -> None:
    """Runs and layer maps."""
    run = str(side.fitted("classify"))
    side.run_json("layers", "show", side.path("bert"), "--layers")
    for name in ("roberta", "deberta-v2", "modernbert", "gpt2"):
        side.run_json(f"layers of {name}", "show", side.path(name))
    side.run_json("run", "show", run)
    side.run_json("forgetting", "show", str(side.fitted("forgetting")), "--forgetting")


def plan(side: Side) -> None:
    """Plans for a device of the table, which need no clock."""
    for name in ("classify", "tag with CRF", "three stages", "LoRA", "frozen encoder"):
        recipe = side.write_recipe(f"planned {name}", fits()[name])
        side.run_json(name, "plan", recipe, "--hardware", "a100-40")
    sizes = ["--steps", "1000", "--batch", "256", "--tokens", "128", "--shape", "layers=2,width=64,vocabulary=300"]
    side.run_json("without data", "plan", *sizes, "--hardware", "a100-40", "--devices", "4")
    side.run_json("devices", "plan", "--hardware", "list")


def features(side: Side) -> None:
    """Vectors of texts, from the command line and in Python."""
    import numpy as np

    window = ["--window", "16", "--keep", "slices"]
    for name, given in (
        ("last.npy", []),
        ("sliced.parquet", ["--layers", "concat-2", "--tokens", "last+max+mean", *window]),
        ("all.npy", ["--layers", "all", "--tokens", "cls", "--batch", "3"]),
    ):
        model = ["--model", side.path("bert"), "--out", str(side.case / name)]
        side.run("features", side.path("test.csv"), *model, *given)
    run = side.fitted("mean pooling")
    found = side.call("features", ASKED, run, layers="mean-2", tokens="max", window=12, keep="tail", batch=4)
    np.save(side.case / "of a run.npy", found)


def export(side: Side) -> None:
    """ONNX exports, and the answers of each engine."""
    for name in ("classify", "tag", "mlp head"):
        run = side.fit(name, **fits()[name])
        side.run_json(f"{name}", "export", str(run))
        for engine in ("onnx", "openvino"):
            side.run_json(f"{name} by {engine}", "predict", str(run), *ASKED, "--engine", engine)
    run = side.fit("int8", **WITH_DEV)
    side.run_json("int8", "export", str(run), "--int8", "--max-drop", "100")
    side.run_json("answers in int8", "predict", str(run), *ASKED, "--engine", "onnx", "--precision", "int8")


def estimators(side: Side) -> None:
    """The estimators for scikit-learn."""
    rows = reviews(16, 0, 7)
    texts = [text for text, _ in rows]
    sizes = {"rate": 2e-3, "epochs": 2, "batch": 4, "tokens": 24, "precision": "fp32", "seed": 1}
    more = {"layers.decay": 0.9, "learn.schedule": "cosine"}
    model = side.path("bert")
    one = side.call("TextClassifier", model, **sizes, options=more, out=str(side.case / "classifier"))
    labels = one.fit(texts, [label for _, label in rows])
    two = side.call("TextScorer", model, **sizes, out=str(side.case / "scorer")).fit(texts, range(16))
    side.write_json("chances.json", labels.predict_proba(ASKED).tolist())
    side.write_json("labels.json", labels.predict(ASKED).tolist())
    side.write_json("scores.json", two.predict(ASKED).tolist())


def report(side: Side) -> None:
    """Reports of runs."""
    for name in ("classify", "tag", "seeds, a baseline and an ablation"):
        side.run("report", str(side.fitted(name)), "--out", str(side.case / f"{name}.html"))


def stages(side: Side) -> None:
    """The stage store, and the same recipe a second time, which trains nothing."""
    values = fits()["three stages"]
    side.fit("first", **values)
    before = len(side.steps.recorded)
    side.fit("second", **values)
    side.run_json("kept", "stages")
    side.write_json("again.json", {"steps of the second run": len(side.steps.recorded) - before})


def bulk(side: Side) -> None:
    """A folder of files labelled with Ray."""
    run, out = str(side.fitted("classify")), side.case / "labelled"
    shards = ["--rows-per-shard", "5", "--workers", "1", "--least-confidence", "0.6"]
    side.run_json("output", "predict", run, "--ray", "local", "--file", side.path("corpus"), "--out", str(out), *shards)


def serve(side: Side) -> None:
    """Two runs served over HTTP."""
    runs = [f"one={side.fitted('classify')}", f"two={side.fitted('tag')}"]
    server, port = _started(side, side.command("serve", *runs, "--port", "0", "--json"))
    try:
        for name, texts in (("one", ASKED), ("two", ["alice lives in paris.", *ASKED[:3]])):
            side.write_json(f"{name}.json", [_asked(port, name, text) for text in texts])
        server.send_signal(signal.SIGTERM)
        side.write_json("left.json", {"code": server.wait(120)})
    finally:
        _end(server)


def _started(side: Side, command: list[str]) -> tuple[subprocess.Popen[str], int]:
    """A server and its port; Ray may time out on a busy machine, and is then started again."""
    for _ in range(3):
        with (side.case / "log.txt").open("a") as log:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        assert server.stdout is not None
        if line := server.stdout.readline():
            return server, int(json.loads(line)["url"].rpartition(":")[2])
        _end(server)
    raise RuntimeError(f"the server did not start: see {side.case / 'log.txt'}")


def _end(server: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _asked(port: int, model: str, text: str) -> dict[str, Any]:
    """The answer to one text per request: how several are batched depends on the clock."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"texts": [text]})
    client.request("POST", f"/v1/models/{model}/predict", body, {"content-type": "application/json"})
    reply = client.getresponse()
    found = {"status": reply.status, **json.loads(reply.read())}
    client.close()
    return found


FIRST: dict[str, Callable[[Side], Any]] = {"stopped and resumed": resumed}
"""Cases that fork, before libraries start threads."""
LAST: dict[str, Callable[[Side], Any]] = {
    "fit by options": by_options,
    "shipped recipes": shipped,
    "sweep": sweep,
    "predict": predict,
    "search": search,
    "evaluate": evaluate,
    "compare": compare,
    "diagnose": diagnose,
    "check": check,
    "show": show,
    "plan": plan,
    "features": features,
    "export": export,
    "estimators": estimators,
    "report": report,
    "stages": stages,
    "two processes": two_processes,
    "predict --ray": bulk,
    "serve": serve,
}
"""Cases that use the runs of others."""
INNER: dict[str, Callable[[Side], Any]] = {RANKS: in_each}
"""Cases that another case starts."""
