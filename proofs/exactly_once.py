"""A corpus labelled with Ray while workers and drivers are killed: every row once, and the bytes of a run left alone.

Workers are killed with SIGKILL at random instants of several labellings; drivers are killed, alone or with all of their
Ray, and run again until the labelling is done. A machine without room is refused, with the reason, in seconds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ROOT, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

WORKERS = 2
SHARD = 200
ROWS = 20_000
FILES = ("a.jsonl", "b.jsonl.gz", "c.csv", "d.parquet")
POISON = ('{"text": 7}', '{"text": "half', '{"text": "\\ud800"}', "", '{"text": " "}', "[]", '{"other": "x"}')
PARTS = ("workers", "drivers", "starved")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def make_run(folder: Path) -> Path:
    """A tiny model, as a run of its own."""
    import warmstart
    from small import FAST, reviews
    from tiny import save_tiny

    os.environ["WARMSTART_CACHE"] = str(folder / "cache")
    for name, rows in {"train": reviews(64), "test": reviews(8, start=1000)}.items():
        text = "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    encoder = save_tiny(folder / "encoder")
    out = folder / "run"
    warmstart.fit(model=str(encoder), train=f"{folder}/train.csv", test=f"{folder}/test.csv", out=out, **FAST)
    return out


def make_corpus(folder: Path, rows: int) -> list[str]:
    """Files of all formats with poison among the rows; gives the id of every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from small import reviews

    folder.mkdir()
    each = rows // len(FILES)
    texts = [[text for text, _ in reviews(each, start=each * number)] for number in range(len(FILES))]
    for number, name in enumerate(FILES[:2]):
        lines = [json.dumps({"text": text}) for text in texts[number]]
        lines[5::97] = [POISON[at % len(POISON)] for at in range(len(lines[5::97]))]
        data = ("\n".join(lines) + "\n").encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    cells = [f"{number},{text}" for number, text in enumerate(texts[2])]
    cells[7::89] = ["one cell"] * len(cells[7::89])
    cells[8::311] = ['1,"never closed'] * len(cells[8::311])
    (folder / "c.csv").write_text("id,text\n" + "\n".join(cells) + "\n", encoding="utf-8")
    column = [None if number % 71 == 3 else text for number, text in enumerate(texts[3])]
    pq.write_table(pa.table({"text": pa.array(column, pa.string())}), folder / "d.parquet", row_group_size=1000)
    return [f"{name}:{number}" for name in FILES for number in range(1, each + 1)]


class Driver:
    """A labelling in a process of its own, with the Ray that it starts."""

    def __init__(self, folder: Path, out: Path) -> None:
        command = [sys.executable, __file__, "--drive", str(folder), str(out)]
        self.log = (folder / "driver.log").open("ab")
        self.out = out
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=self.log, stderr=self.log)
        self.seen: dict[int, Any] = {}

    def tree(self) -> list[Any]:
        """All processes that came from this one, dead ones too."""
        import psutil

        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.Error:
            found = []
        self.seen |= {one.pid: one for one in found}
        return found

    def workers(self) -> list[Any]:
        """Those that hold a model, or load one."""
        import psutil

        found = []
        for one in self.tree():
            try:
                if "MapWorker" in " ".join(one.cmdline()):
                    found.append(one)
            except psutil.Error:
                continue
        return found

    def records(self) -> int:
        """Shards that are done."""
        return sum(1 for _ in self.out.rglob("records/*.json"))

    def progress(self) -> bool:
        """Wait until one more shard is done; False if the process ended before."""
        done = self.records()
        return self.wait(lambda: self.records() > done)

    def wait(self, ready: Callable[[], Any]) -> bool:
        """Wait until something is so; False if the process ended before."""
        while self.process.poll() is None:
            if ready():
                return True
            time.sleep(0.01)
        return False

    def kill(self, whole: bool) -> None:
        """SIGKILL the driver; with all of its Ray, or so that Ray has to find out."""
        self.tree()
        self.process.kill()
        self.process.wait()
        if whole:
            self.clear()

    def clear(self) -> None:
        """Kill what is left of its Ray."""
        import psutil

        for one in self.seen.values():
            try:
                one.kill()
            except psutil.Error:
                continue
        self.log.close()


class Proof:
    """The same labelling, left alone and killed."""

    def __init__(self, folder: Path, rows: int, seed: int) -> None:
        self.folder = folder
        self.run = make_run(folder)
        self.ids = make_corpus(folder / "in", rows)
        self.random = random.Random(seed)
        self.figures: dict[str, Any] = {"rows": len(self.ids), "rows_lost": 0, "rows_twice": 0, "bytes_differ": 0}
        self.jobs = 0
        self.wanted: dict[str, bytes] = {}
        self.seconds = 0.0

    def alone(self) -> None:
        """What the output is when nobody is killed."""
        began = time.monotonic()
        driver = Driver(self.folder, self.folder / "alone")
        assert driver.process.wait() == 0, (self.folder / "driver.log").read_text()[-3000:]
        self.seconds = time.monotonic() - began
        self.wanted = _files(driver.out)
        self._count(driver.out)
        manifest = json.loads((driver.out / "manifest.json").read_text())
        self.figures |= {name: manifest[name] for name in ("answered", "set_aside")}
        _say(f"left alone: {manifest['answered']} answered, {manifest['set_aside']} set aside, {self.seconds:.0f} s")

    def worker_kills(self, wanted: int) -> int:
        """Kill workers at random instants of one labelling after the other."""
        hits = 0
        while hits < wanted:
            driver = self._start()
            while hits < wanted:
                # Most instants are in the midst of work, so that there is something to lose; some while models load.
                loading = self.random.random() < 0.2
                if not (driver.wait(driver.workers) if loading else driver.progress()):
                    break
                time.sleep(self.random.uniform(0, 0.6))
                for one in driver.workers():
                    hits += self._killed(one)
                _say(f"{hits} of {wanted} workers killed, {driver.records()} shards done")
            assert driver.process.wait() == 0, (self.folder / "driver.log").read_text()[-3000:]
            self._finished(driver)
        return hits

    def driver_kills(self, wanted: int) -> int:
        """Kill drivers at random instants and run each again, until its labelling is done."""
        hits = 0
        out = None
        while hits < wanted:
            driver = self._start(out)
            out = driver.out
            if self.random.random() < 0.3:
                time.sleep(self.random.uniform(0.5, self.seconds))
            else:
                driver.progress()
                time.sleep(self.random.uniform(0, 0.6))
            if driver.process.poll() is None:
                driver.kill(whole=hits % 2 == 0)
                hits += 1
                _say(f"{hits} of {wanted} drivers killed, {driver.records()} shards done")
            else:
                self._finished(driver)
                out = None
        if out is not None:
            driver = self._start(out)
            assert driver.process.wait() == 0, (self.folder / "driver.log").read_text()[-3000:]
            self._finished(driver)
        return hits

    def _start(self, out: Path | None = None) -> Driver:
        self.jobs += out is None
        return Driver(self.folder, out or self.folder / f"job-{self.jobs}")

    def _killed(self, process: Any) -> bool:
        try:
            process.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            return False
        except Exception as error:  # psutil's own kind of the same
            if type(error).__name__ == "NoSuchProcess":
                return False
            raise
        return True

    def _finished(self, driver: Driver) -> None:
        """Compare a labelling with the one that was left alone."""
        driver.clear()
        found = _files(driver.out)
        differ = sorted(name for name in {*found, *self.wanted} if found.get(name) != self.wanted.get(name))
        self.figures["bytes_differ"] += len(differ)
        self._count(driver.out)
        _say(f"job {self.jobs} done: {len(found)} files, {len(differ)} differ {differ[:3] if differ else ''}")
        shutil.rmtree(driver.out)

    def _count(self, out: Path) -> None:
        import pyarrow.parquet as pq

        ids: Counter[str] = Counter()
        for path in out.rglob("*.parquet"):
            ids.update(pq.read_table(path, columns=["row"]).column("row").to_pylist())
        self.figures["rows_lost"] += sum(not ids[one] for one in self.ids)
        self.figures["rows_twice"] += sum(count > 1 for count in ids.values())
        assert set(ids) <= set(self.ids), "an id that no row has"


def starved(proof: Proof) -> dict[str, float]:
    """Seconds until a labelling without room is refused, by what is missing; each must be told."""
    run, corpus = proof.run, proof.folder / "in"
    large = proof.folder / "large"
    shutil.copytree(run / "model", large)
    os.truncate(large / "model.safetensors", 1 << 42)
    wide = proof.folder / "wide.jsonl"
    wide.write_bytes(b'{"text": "one"}\n')
    os.truncate(wide, shutil.disk_usage(proof.folder).free + (1 << 30))
    cases: dict[str, tuple[list[str], str, set[int] | None]] = {
        "cpus": ([str(run), "--ray", "local", "--file", str(corpus)], "1 CPU", {min(os.sched_getaffinity(0))}),
        "memory": ([str(large), "--ray", "local", "--workers", "1", "--file", str(corpus)], "free memory", None),
        "disk": ([str(run), "--ray", "local", "--workers", "1", "--file", str(wide)], "needed", None),
        "address": ([str(run), "--ray", "127.0.0.1:9", "--file", str(corpus)], "nobody answers", None),
    }
    seconds = {}
    for name, (arguments, words, cores) in cases.items():
        command = [sys.executable, "-m", "warmstart.cli.main", "predict", *arguments]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--out", str(proof.folder / "refused")],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            preexec_fn=(lambda cores=cores: os.sched_setaffinity(0, cores)) if cores else None,
        )
        seconds[name] = round(time.monotonic() - began, 2)
        told = " ".join(done.stderr.split())
        assert done.returncode not in (0, 1), (name, told[-2000:])
        assert words in told, (name, told[-2000:])
        _say(f"{name}: refused in {seconds[name]} s: {told[:160]}")
    return seconds


def _files(out: Path) -> dict[str, bytes]:
    """All that must be the same: answers, what was set aside, and the manifests."""
    names = [*out.rglob("*.parquet"), *out.rglob("manifest.json")]
    return {str(path.relative_to(out)): path.read_bytes() for path in names}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def drive(folder: Path, out: Path) -> None:
    """In a process of its own: label."""
    from warmstart.deploy.label.label_corpus import label

    label(
        folder / "run",
        str(folder / "in"),
        out,
        workers=WORKERS,
        cpus=WORKERS + 1,
        rows_per_shard=SHARD,
        files_per_group=2,
    )


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50, help="workers killed (default 50); of drivers three for each five")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the corpus (default {ROWS})")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of workers, drivers, starved")
    parser.add_argument("--seed", type=int, default=0, help="another one kills at other instants")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    parser.add_argument("--drive", nargs=2, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        drive(*args.drive)
        return
    parts = args.parts.split(",")
    with tempfile.TemporaryDirectory() as name:
        proof = Proof(Path(name), args.rows, args.seed)
        figures = proof.figures
        if {"workers", "drivers"} & set(parts):
            proof.alone()
        figures["worker_kills"] = proof.worker_kills(args.n) if "workers" in parts else 0
        figures["driver_kills"] = proof.driver_kills(max(1, round(args.n * 0.6))) if "drivers" in parts else 0
        if "starved" in parts:
            figures["refused_in_seconds"] = starved(proof)
        figures["jobs"] = proof.jobs
    if args.write:
        write_page("exactly-once", "A corpus labelled exactly once", "make proof-exactly-once", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    refused = ", ".join(f"{name} {seconds} s" for name, seconds in figures.get("refused_in_seconds", {}).items())
    return (
        f"Through **{figures['worker_kills']} killed workers and {figures['driver_kills']} killed drivers**, "
        f"{figures['rows_lost']} rows were lost, {figures['rows_twice']} labelled twice, and "
        f"{figures['bytes_differ']} files differ from those of an uninterrupted job.\n\n"
        f"A corpus of {figures['rows']:,} rows in JSONL, gzipped JSONL, CSV and Parquet files is labelled by {WORKERS} "
        f"Ray workers, in shards of {SHARD} rows and groups of 2 files, with a tiny model. Without interruption, "
        f"{figures['answered']:,} rows are labelled and {figures['set_aside']:,} set aside: broken lines, wrong types, "
        "empty texts, lone surrogates. Then the corpus is labelled several more times, into new folders, while "
        "processes are killed with SIGKILL at random times, mostly while shards are being labelled.\n\n"
        "| | |\n| --- | ---: |\n"
        f"| workers killed | {figures['worker_kills']} |\n"
        f"| drivers killed, alone or with their Ray processes, and restarted | {figures['driver_kills']} |\n"
        f"| labelling jobs compared | {figures['jobs']} |\n"
        f"| rows lost | {figures['rows_lost']} |\n"
        f"| duplicate rows | {figures['rows_twice']} |\n"
        "| Parquet files and manifests that differ from those of the uninterrupted job | "
        f"{figures['bytes_differ']} |\n\n"
        "Time until a job is refused, with the reason, if something is missing, including the start of Python: "
        f"{refused}."
    )


if __name__ == "__main__":
    main()
