"""The cases of the proof that nothing changed that are more than one training: stops, several processes, every verb."""

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
RANKS = "two processes, in each of them"
GRADUAL = {**REVIEWS, **SAVED, "layers.unfreeze": "gradual", "layers.unfreeze_every": 3, "learn.average": 2}


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _crash() -> None:
    from unchanged_side import Crash

    raise Crash


def stopped(side: Side) -> None:
    """A training killed with SIGKILL, then by SIGTERM, then by an error, and carried to its end after each."""
    noted: dict[str, Any] = {"killed by": side.killed(5, out="run", **GRADUAL)}
    for name, how in (("stopped", _terminate), ("crashed", _crash)):
        noted[name] = side.ended(1 if name == "stopped" else 2, how, out="run", **GRADUAL)
    run, alone = side.fit("run", **GRADUAL), side.fit("alone", **GRADUAL)
    both = [(one / "model" / "model.safetensors").read_bytes() for one in (run, alone)]
    side.keep("stops.json", {**noted, "ends as if left alone": both[0] == both[1]})


def two_processes(side: Side) -> None:
    """The same script again, started twice by torchrun."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    script = str(Path(__file__).with_name("unchanged_side.py"))
    names = sys.argv[1 : sys.argv.index("--cases")] if "--cases" in sys.argv else sys.argv[1:]
    command = [sys.executable, *launcher, script, *names, "--cases", json.dumps([RANKS])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])


def in_each(side: Side) -> None:
    """What each of two processes does: batches by length and by tokens, and a loss of several parts."""
    side.fit("by-length", **REVIEWS, **SAVED, **{"learn.batch": 4})
    side.fit("by-tokens", **REVIEWS, **{"learn.batch_tokens": 60})
    task = {"name": "masked", "objective": "mlm+sop", "unit": "word"}
    side.fit("masked", **{"data.train": "texts.txt", "task": task, "window.tokens": 32, "learn.batch": 4})


def by_options(side: Side) -> None:
    """A training said by options of the command line alone."""
    sizes = ["--rate", "2e-3", "--epochs", "2", "--batch", "8", "--tokens", "24", "--precision", "fp32", "--seed", "2"]
    files = ["--test", side.path("test.csv"), "--dev", side.path("dev.csv"), "--text", "text", "--label", "label"]
    more = ["--set", "layers.decay=0.9", "--set", "head=new", "--set", "trainer.logging_steps=1"]
    model = ["--model", side.path("bert"), "--task", "classify", "--out", str(side.case / "run")]
    side.ask("said", "fit", side.path("train.csv"), *model, *files, *sizes, *more)


def shipped(side: Side) -> None:
    """The recipes that come with warmstart, each carried out for some steps."""
    names = {"classify": "train.csv", "tag": "tags.jsonl", "span": "spans.jsonl", "choose": "riddles.jsonl"}
    for name, train in {**names, "score": "scores.csv", "relate": "relations.jsonl", "rank": "judged.jsonl"}.items():
        given = ["--recipe", name, "--model", side.path("bert"), "--max-steps", "3", "--batch", "4"]
        more = ["--precision", "fp32", "--set", "data.split.test=0.3", "--out", str(side.case / name)]
        side.told("fit", side.path(train), *given, *more, "--json")


def sweep(side: Side) -> None:
    """A grid, and a search by chance.

    By chance each value is drawn from the seed, the trial's number and the field's name; so a search over a field that
    was renamed draws others, and the one here is over fields that keep their names.
    """
    recipe = side.write_recipe("searched", {**COMMON, **WITH_DEV, "learn.max_steps": 3})
    grid = ["--search", "learn.batch=4,8", "--search", "learn.rate=1e-3,3e-3", "--sampler", "grid"]
    side.ask("grid said", "sweep", recipe, *grid, "--out", str(side.case / "grid"))
    chance = ["--search", "layers.freeze=0,1,2,3", "--search", "seed={low: 0, high: 1000}", "--sampler", "random"]
    side.ask("chance said", "sweep", recipe, *chance, "--trials", "3", "--out", str(side.case / "chance"))


def predict(side: Side) -> None:
    """Answers to texts and to files, on the screen and in every format."""
    run = str(side.fitted("classify"))
    side.ask("texts", "predict", run, *ASKED)
    side.ask("held back", "predict", run, *ASKED, "--least-confidence", "0.75")
    for suffix in ("csv", "jsonl", "parquet"):
        side.told("predict", run, "--file", side.path("test.csv"), "--out", str(side.case / f"answers.{suffix}"))
    side.ask("pairs", "predict", str(side.fitted("classify pairs")), *ASKED[:4])
    side.ask("scores", "predict", str(side.fitted("score")), *ASKED)
    side.ask("tags", "predict", str(side.fitted("tag with CRF")), "alice bob lives in tokyo.", "in paris, bob was good")
    side.ask(
        "spans", "predict", str(side.fitted("span")), "who", "alice was in the film", "where", "bob lives in tokyo"
    )
    side.ask("slices", "predict", str(side.fitted("slices, attention")), *(2 * text for text in ASKED))
    side.ask("ensemble", "predict", str(side.fitted("seeds, an ensemble")), *ASKED)
    side.ask("endings", "predict", str(side.fitted("choose")), "the film", "it was good", "it was bad", "a boring plot")
    found = side.call("load", str(side.fitted("masked mlm"))).predict(["the [MASK] film was [MASK].", "good [MASK]"])
    side.keep("fills.json", found)


def search(side: Side) -> None:
    """Documents found by a bi-encoder, and pairs judged by a cross-encoder."""
    bi, cross = str(side.fitted("rank bi")), str(side.fitted("rank cross"))
    queries = ["where is the film", "who is alice", "the food"]
    side.ask("found", "predict", bi, *queries, "--documents", side.path("documents.csv"), "--top", "3")
    for name, run in (("bi", bi), ("cross", cross)):
        side.ask(name, "predict", run, "where is the film", "the film is good", "who is bob", "a book")


def evaluate(side: Side) -> None:
    """Runs measured again, on their own test rows and on others."""
    side.ask("own", "evaluate", str(side.fitted("classify")))
    side.ask("other", "evaluate", str(side.fitted("classify")), side.path("dev.csv"))
    side.ask("tags", "evaluate", str(side.fitted("tag")), side.path("tags.jsonl"))
    side.ask("spans", "evaluate", str(side.fitted("span")), side.path("spans.jsonl"))
    side.ask("rank", "evaluate", str(side.fitted("rank cross")), side.path("judged.jsonl"))


def compare(side: Side) -> None:
    """Runs held side by side."""
    runs = [str(side.fitted(name)) for name in ("classify", "rates by layer", "mlp")]
    side.ask("said", "compare", *runs)


def diagnose(side: Side) -> None:
    """Where runs err, wrong labels looked for, and probabilities calibrated."""
    run = side.fit(**MEASURED)
    wanted = ["--precision", "0.6", "--abstain", "0.2"]
    side.ask("said", "diagnose", str(run), *wanted, "--label-errors", "--folds", "2")
    side.ask("calibrated", "diagnose", str(run), "--calibrate")
    side.ask("answers", "predict", str(run), *ASKED)
    for name in ("score", "tag", "span with dev", "rank cross", "choose", "relate", "classify several labels"):
        side.ask(f"said of {name}", "diagnose", str(side.fitted(name)))


def check(side: Side) -> None:
    """What is wrong with data."""
    columns = ["--no-header", "--text", "2", "--label", "1", "--drop", "unlabelled"]
    test = ["--test", side.path("test.tsv"), "--model", side.path("bert"), "--tokens", "16"]
    side.ask("said", "check", side.path("faulty.tsv"), *columns, *test)
    side.ask("clean", "check", side.path("train.csv"), "--test", side.path("test.csv"))


def show(side: Side) -> None:
    """Runs and layers as they are shown."""
    run = str(side.fitted("classify"))
    side.ask("layers", "show", side.path("bert"), "--layers")
    for name in ("roberta", "deberta-v2", "modernbert", "gpt2"):
        side.ask(f"layers of {name}", "show", side.path(name))
    side.ask("run", "show", run)
    side.ask("forgetting", "show", str(side.fitted("what is forgotten")), "--forgetting")


def plan(side: Side) -> None:
    """What trainings will cost, by counting alone."""
    for name in ("classify", "tag with CRF", "three stages", "LoRA", "frozen encoder"):
        recipe = side.write_recipe(f"planned {name}", fits()[name])
        side.ask(name, "plan", recipe, "--hardware", "a100-40")
    sizes = ["--steps", "1000", "--batch", "256", "--tokens", "128", "--shape", "layers=2,width=64,vocabulary=300"]
    side.ask("without data", "plan", *sizes, "--hardware", "a100-40", "--devices", "4")
    side.ask("devices", "plan", "--hardware", "list")


def features(side: Side) -> None:
    """Vectors of texts, by the command line and in Python."""
    import numpy as np

    window = ["--window", "16", "--keep", "slices"]
    for name, given in (
        ("last.npy", []),
        ("sliced.parquet", ["--layers", "concat-2", "--tokens", "last+max+mean", *window]),
        ("all.npy", ["--layers", "all", "--tokens", "cls", "--batch", "3"]),
    ):
        model = ["--model", side.path("bert"), "--out", str(side.case / name)]
        side.told("features", side.path("test.csv"), *model, *given)
    run = side.fitted("mean of tokens")
    found = side.call("features", ASKED, run, layers="mean-2", tokens="max", window=12, keep="tail", batch=4)
    np.save(side.case / "of a run.npy", found)


def export(side: Side) -> None:
    """Models for other engines, and their answers."""
    for name in ("classify", "tag", "mlp"):
        run = side.fit(name, **fits()[name])
        side.ask(f"said of {name}", "export", str(run))
        for engine in ("onnx", "openvino"):
            side.ask(f"{name} by {engine}", "predict", str(run), *ASKED, "--engine", engine)
    run = side.fit("int8", **WITH_DEV)
    side.ask("said of int8", "export", str(run), "--int8", "--max-drop", "100")
    side.ask("answers in int8", "predict", str(run), *ASKED, "--engine", "onnx", "--precision", "int8")


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
    side.keep("chances.json", labels.predict_proba(ASKED).tolist())
    side.keep("labels.json", labels.predict(ASKED).tolist())
    side.keep("scores.json", two.predict(ASKED).tolist())


def report(side: Side) -> None:
    """A report and a model card of runs."""
    for name in ("classify", "tag", "seeds, a baseline and an ablation"):
        side.told("report", str(side.fitted(name)), "--out", str(side.case / f"{name}.html"))


def stages(side: Side) -> None:
    """What is kept of stages, and the same recipe once more, which trains nothing."""
    values = fits()["three stages"]
    side.fit("first", **values)
    before = len(side.steps.seen)
    side.fit("second", **values)
    side.ask("kept", "stages")
    side.keep("again.json", {"steps of the second": len(side.steps.seen) - before})


def bulk(side: Side) -> None:
    """A folder of files labelled by a worker of Ray."""
    run, out = str(side.fitted("classify")), side.case / "labelled"
    shards = ["--rows-per-shard", "5", "--workers", "1", "--least-confidence", "0.6"]
    side.ask("said", "predict", run, "--ray", "local", "--file", side.path("corpus"), "--out", str(out), *shards)


def serve(side: Side) -> None:
    """Two runs behind a server, asked over HTTP."""
    runs = [f"one={side.fitted('classify')}", f"two={side.fitted('tag')}"]
    server, port = _started(side, side.command("serve", *runs, "--port", "0", "--json"))
    try:
        for name, texts in (("one", ASKED), ("two", ["alice lives in paris.", *ASKED[:3]])):
            side.keep(f"{name}.json", [_asked(port, name, text) for text in texts])
        server.send_signal(signal.SIGTERM)
        side.keep("left.json", {"code": server.wait(120)})
    finally:
        _end(server)


def _started(side: Side, command: list[str]) -> tuple[subprocess.Popen[str], int]:
    """A server and its port; on a machine with much else to do Ray may give up, and is then started again."""
    for _ in range(3):
        with (side.case / "log.txt").open("a") as log:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        assert server.stdout is not None
        if line := server.stdout.readline():
            return server, int(json.loads(line)["url"].rpartition(":")[2])
        _end(server)
    raise RuntimeError(f"no server came up: see {side.case / 'log.txt'}")


def _end(server: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _asked(port: int, model: str, text: str) -> dict[str, Any]:
    """The answer to one text: which texts share a batch would depend on when they come."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"texts": [text]})
    client.request("POST", f"/v1/models/{model}/predict", body, {"content-type": "application/json"})
    reply = client.getresponse()
    found = {"status": reply.status, **json.loads(reply.read())}
    client.close()
    return found


FIRST: dict[str, Callable[[Side], Any]] = {"stopped and resumed": stopped}
"""Cases that fork, which comes before libraries have threads of their own."""
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
    "bulk": bulk,
    "serve": serve,
}
"""Cases that use what the trainings left."""
INNER: dict[str, Callable[[Side], Any]] = {RANKS: in_each}
"""Cases that another one starts."""
