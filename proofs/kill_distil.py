"""SIGKILL while a teacher answers and its student trains: every text answered once, the student bit-identical.

Each run is killed several times and resumed each time: in one process, from the loading of the teacher to the student's
training; and with Ray, whose workers, drivers and drivers with all of their Ray are killed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork

import kept
from common import ROOT, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

from small import FAST, reviews
from tiny_fit import TinyFit, draw, kill_when, result
from warmstart.deploy.label.manifest import MANIFEST

TEXTS, SHARD = 400, 2
UNREADABLE = ('{"text": 7}', '{"text": "half', '{"text": " "}', "[]")
PHASES = {
    "start": "before a new text was answered",
    "answer": "while texts were answered",
    "gather": "while the finished answers were moved into the store",
    "join": "before the student's first checkpoint",
    "train": "while the student was trained",
    "worker": "the Ray worker that answers",
    "driver": "the run, while its Ray lived on",
    "ray": "the run with all of its Ray",
}
PARTS = {
    "process": (("start", "answer", "answer", "gather", "train"), ("start", "answer", "answer", "join", "train")),
    "ray": (("worker", "driver", "worker", "ray", "worker"),),
}
"""The kills of a run, one after the other, by where the teacher answers; the next run takes the next of them."""


RAY_TRIES = 5
"""How often a run that was killed is started again, where Ray does not start."""
ABOUT = {
    "process": "Some runs answer, store the answers and train in one process.",
    "ray": "In others, a [Ray](../howto/ray-clusters.md) worker answers; one that is killed is replaced by Ray.",
}


class TaughtFit(TinyFit):
    """A student of a tiny teacher, that answers texts without labels; each run has a cache of its own."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder)
        self.stages: list[dict[str, Any]] = []
        teacher = folder / "teacher"
        student, self.settings = self.settings, {"training": {**FAST["training"], "epochs": 3}}
        assert self.run(teacher) == 0, (folder / "last-error").read_text()
        lines = [json.dumps({"text": text}) for text, _ in reviews(count, start=5000)]
        for number, line in enumerate(UNREADABLE):
            lines.insert(count // 5 * number + 3, line)
        texts = folder / "texts.jsonl"
        texts.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.readable = {f"texts.jsonl:{number}" for number, line in enumerate(lines, 1) if line not in UNREADABLE}
        training = {"learning_rate": 1e-3, "epochs": 2, "batch_size": 16, "precision": "fp32"}
        self.settings = {**student, "training": training}
        self.stages = [{"distil": {"teacher": str(teacher), "texts": str(texts), "rows_per_shard": SHARD}}]

    def fit(self, out: Path) -> None:
        """Answer and train, or go on; with Ray where the folder says so."""
        os.environ["WARMSTART_CACHE"] = str(cache_of(out))
        if self.stages:
            place = {"ray": "local"} if out.name.startswith("ray") else {}
            self.settings["stages"] = [{"distil": {**self.stages[0]["distil"], **place}}]
        super().fit(out)


def cache_of(run: Path) -> Path:
    """The cache of a run."""
    return run.with_name(f"{run.name}-cache")


class Taught:
    """What is on disk of a run with a teacher."""

    def __init__(self, run: Path) -> None:
        self.run, self.store = run, cache_of(run) / "stages"

    @property
    def shards(self) -> int:
        """Shards that are answered, before all are in their place."""
        return sum(1 for _ in self.store.glob(".distil-*.answers/*/records/*.json"))

    @property
    def answered(self) -> bool:
        """Whether all are answered, in their place or not."""
        return self.finished or any(self.store.glob(f".distil-*.answers/{MANIFEST}"))

    @property
    def finished(self) -> bool:
        """Whether the answers are in their place."""
        return any(path.is_dir() for path in self.store.glob("distil-*"))

    @property
    def unfinished(self) -> bool:
        """Whether the folder is there in which answers are gathered."""
        return any(self.store.glob(".distil-*.answers"))

    @property
    def training(self) -> bool:
        """Whether the student has a checkpoint."""
        return any((self.run / "checkpoints").glob("step-*"))

    @property
    def over(self) -> bool:
        """Whether the run is finished."""
        return (self.run / "metrics.json").is_file()

    def answers(self) -> dict[str, bytes]:
        """The files of answers, and how many there are."""
        (stage,) = (path for path in self.store.glob("distil-*") if path.is_dir())
        return {path.name: path.read_bytes() for path in (*stage.glob("answers/*.parquet"), stage / "answers.json")}

    def rows(self) -> Counter[str]:
        """How often each text is answered."""
        import pyarrow.parquet as pq

        files = self.store.glob("distil-*/answers/*.parquet")
        return Counter(row for path in files for row in pq.read_table(path, columns=["row"])["row"].to_pylist())

    def clear(self) -> None:
        """Remove it with its cache."""
        for folder in (self.run, cache_of(self.run)):
            shutil.rmtree(folder, ignore_errors=True)


class Proof:
    """Runs that are killed several times each, beside one that is left alone."""

    def __init__(self, folder: Path, texts: int, seed: int) -> None:
        self.folder, self.random = folder, draw(seed)
        self.tiny = TaughtFit(folder, texts)
        alone = folder / "alone"
        assert self.tiny.run(alone) == 0, (folder / "last-error").read_text()
        self.student, self.answers = result(alone), Taught(alone).answers()
        self.figures = _nothing()
        self._count(Taught(alone))
        self.leftovers: dict[int, psutil.Process] = {}
        self.child = 0  # the run that goes on, where one does

    def part(self, part: str, count: int) -> dict[str, Any]:
        """So many kills of the runs of a part, and what became of them."""
        self.figures, left = _nothing(), count
        for kills in itertools.cycle(PARTS[part]):
            if left <= 0:
                break
            self._case(part, kills[-left:])
            left -= len(kills)
        self._end_ray()
        return self.figures

    def _case(self, part: str, kills: Sequence[str]) -> None:
        """Kill one run so many times, let it finish, and compare."""
        taught = Taught(self.folder / part)
        while True:  # until every kill hit what it was meant for
            self._end_ray()
            taught.clear()
            if all(self._kill(kind, taught) for kind in kills):
                break
            self._stop()
            _say(f"{part}: a kill of {', '.join(kills)} missed its moment; once more")
        self._finish(taught)
        self.figures["runs"] += 1
        self.figures["bit_equal"] += result(taught.run) == self.student
        self.figures["answers_equal"] += taught.answers() == self.answers
        self.figures["left_over"] += taught.unfinished
        self._count(taught)
        for kind in kills:
            self.figures["kills"][kind] = self.figures["kills"].get(kind, 0) + 1
        _say(f"{part}: killed {', '.join(kills)}; {self.figures}")

    def _finish(self, taught: Taught) -> None:
        """Let a run come to its end."""
        if self.child and _exit_code(self.child):
            self._say_why()
        self.child = 0
        tries = RAY_TRIES
        while not taught.over:
            tries -= 1
            if self.tiny.run(taught.run):
                self._say_why()
                if not tries or taught.run.name != "ray":
                    sys.exit("a run that was killed does not come to its end")

    def _say_why(self) -> None:
        """On a busy machine, Ray may not start in time, and the run says to start it again."""
        _say((self.folder / "last-error").read_text())

    def _count(self, taught: Taught) -> None:
        rows = taught.rows()
        assert set(rows) <= self.tiny.readable, "an answer to a text that cannot be read"
        self.figures["not_answered"] += len(self.tiny.readable - set(rows))
        self.figures["answered_twice"] += sum(count > 1 for count in rows.values())

    def _kill(self, kind: str, taught: Taught) -> bool:
        """Start a run, or go on with it, and kill; False if the kill missed what it was meant for."""
        before, now = taught.shards, self.random.uniform
        if kind in ("worker", "driver", "ray"):
            self.child = self.child or self.tiny.start(taught.run)
            return self._kill_ray(kind, taught, before)
        child = self.tiny.start(taught.run)
        if kind == "start":
            return kill_when(child, lambda: True, now(0, 1)) and taught.shards == before and not taught.answered
        if kind == "answer":
            return kill_when(child, lambda: taught.shards > before, now(0, 0.2)) and not taught.answered
        if kind == "gather":
            return kill_when(child, lambda: taught.answered, now(0, 0.01)) and taught.unfinished
        if kind == "join":
            return kill_when(child, lambda: taught.finished, now(0, 0.5)) and not taught.training
        return kill_when(child, lambda: taught.training, now(0, 0.5)) and not taught.over

    def _kill_ray(self, kind: str, taught: Taught, before: int) -> bool:
        """Kill the worker, after which the run goes on; or the run, alone or with all of its Ray."""
        # A shard in between: one whose worker dies again and again is set aside.
        tries = RAY_TRIES
        while taught.shards <= before:
            if os.waitpid(self.child, os.WNOHANG)[0]:
                if taught.answered:
                    self.child = 0
                    return False
                self._say_why()
                tries -= 1
                if not tries:
                    sys.exit("a run that was killed does not go on")
                self.child = self.tiny.start(taught.run)
            time.sleep(0.02)
        time.sleep(self.random.uniform(0, 0.1))
        below = psutil.Process(self.child).children(recursive=True)
        self.leftovers |= {process.pid: process for process in below}
        if kind == "worker":
            workers = [process for process in below if _holds_model(process)]
            for process in workers:
                process.send_signal(signal.SIGKILL)
            return bool(workers) and not taught.answered
        self._stop()
        hit = not taught.answered
        if kind == "ray":
            self._end_ray()
        return hit

    def _stop(self) -> None:
        """Kill the run that is going on."""
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = 0

    def _end_ray(self) -> None:
        """Kill what is left of the Rays whose runs are killed."""
        for process in self.leftovers.values():
            try:
                process.kill()
            except psutil.Error:
                continue
        self.leftovers.clear()


def _exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _holds_model(process: psutil.Process) -> bool:
    """Whether a process is a worker that holds a model, or loads one."""
    try:
        return "MapWorker" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--n", type=int, default=20, help="kills in one process (default 20), and half as many with Ray"
    )
    parser.add_argument("--texts", type=int, default=TEXTS, help=f"texts to answer (default {TEXTS})")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"which of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=0, help="another one kills at other instants")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        proof = Proof(Path(name), args.texts, args.seed)
        parts = {
            part: partial(proof.part, part, args.n // (2 if part == "ray" else 1)) for part in args.parts.split(",")
        }
        figures = kept.by_parts("kill-distil", parts, args.write)
    if args.write:
        write_page("kill-distil", "Killed while a teacher answers", "make proof-distil", _page(figures))
    finish(figures)


def _nothing() -> dict[str, Any]:
    counts = ("runs", "bit_equal", "answers_equal", "not_answered", "answered_twice", "left_over")
    return {**dict.fromkeys(counts, 0), "kills": {}}


def _page(parts: dict[str, dict[str, Any]]) -> str:
    figures = {name: sum(part[name] for part in parts.values()) for name in _nothing() if name != "kills"}
    kills = {kind: count for part in parts.values() for kind, count in part["kills"].items()}
    rows = "\n".join(f"| {where} | {kills[kind]} |" for kind, where in PHASES.items() if kind in kills)
    return (
        f"**{figures['bit_equal']} of {figures['runs']}** runs with a teacher, killed with SIGKILL "
        f"{sum(kills.values())} times in all, ended with a student bit-identical to that of an uninterrupted run; "
        f"{figures['not_answered']} texts were left without an answer and {figures['answered_twice']} were answered "
        "twice.\n\n"
        "| killed | times |\n| --- | ---: |\n"
        f"{rows}\n\n"
        "| | |\n| --- | ---: |\n"
        f"| runs | {figures['runs']} |\n"
        f"| whose student has the same weights, optimizer and scores | {figures['bit_equal']} |\n"
        f"| whose files of answers have the same bytes | {figures['answers_equal']} |\n"
        f"| texts without an answer, over all runs | {figures['not_answered']} |\n"
        f"| texts with several answers, over all runs | {figures['answered_twice']} |\n"
        f"| runs that left unfinished answers in the cache | {figures['left_over']} |\n\n"
        f"A tiny teacher answers {TEXTS} texts in shards of {SHARD}, and sets {len(UNREADABLE)} aside that "
        "cannot be read; a tiny student learns the answers with 64 labelled rows, over 58 steps with a checkpoint "
        "every 3. Each run is killed five times, and the same command resumes it; where a kill comes too late for what "
        "it was meant for, the run begins anew and is not counted. "
        + " ".join(ABOUT[part] for part in parts)
        + " All runs are compared with one uninterrupted run that answers without Ray."
    )


if __name__ == "__main__":
    main()
