"""A corpus labelled by three Ray nodes while its input and output fail: every row once, and the bytes of a quiet run.

Folders are renamed away or lose their permissions, and an S3-compatible server is cut off, for 1 to 120 seconds, while
shards are being labelled. One outage lasts longer than it is retried: the job ends with exit code 74, and the same
command goes on later. Parts (`--parts local,s3,limit`) can be run alone; with `--write`, what a part found is kept, and
the page is written when all are there.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import kept
from common import finish, write_page
from exactly_once import ENVIRONMENT, FILES, Driver, make_corpus, make_run
from s3_server import Forwarder, S3Server

PARTS = ("local", "s3", "limit")
NODES = 3
SHARD = 100
LOCAL_KINDS = ("input away", "output away", "input without permission", "output without permission")
LIMIT = 5
"""Seconds that an outage is retried where it lasts longer."""
OUTAGE_CODE = 74
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


def obey_permissions() -> None:
    """In a child, before its program: give up what lets root open files that nobody may."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


class Labelling(Driver):
    """A labelling in a process of its own, with the cluster that it starts."""

    def __init__(self, folder: Path, inputs: str, out: str, done: Callable[[], int], timeout: float = 600) -> None:
        command = [sys.executable, __file__, "--drive", str(folder / "run"), inputs, out, str(timeout)]
        self.log = (folder / "driver.log").open("ab")
        self.process = subprocess.Popen(
            command, env=ENVIRONMENT, stdout=self.log, stderr=self.log, preexec_fn=obey_permissions
        )
        self.seen: dict[int, Any] = {}
        self.done = done

    def records(self) -> int:
        """Shards that are done."""
        return self.done()

    def ended(self, code: int) -> None:
        """Wait for the end, and for this exit code."""
        found = self.process.wait()
        self.clear()
        assert found == code, (found, Path(self.log.name).read_text(encoding="utf-8")[-3000:])


def drive(run: str, inputs: str, out: str, timeout: str) -> int:
    """In a process of its own: start a cluster and label; gives the exit code."""
    from warmstart.deploy.cluster import import_ray
    from warmstart.deploy.label.label_corpus import label
    from warmstart.errors import WarmstartError

    import_ray(own=True)
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    # One CPU more than workers, to hand out the shards.
    cluster = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 2, "include_dashboard": False})
    try:
        for _ in range(NODES - 1):
            cluster.add_node(**node)
        label(
            run,
            inputs,
            out,
            address=cluster.address,
            workers=NODES,
            rows_per_shard=SHARD,
            files_per_group=2,
            retry_timeout=float(timeout),
        )
    except WarmstartError as error:
        print(error, flush=True)
        return error.exit_code
    finally:
        cluster.shutdown()
    return 0


class Proof:
    """The same labelling, quiet and through outages."""

    def __init__(self, folder: Path, rows: int, longest: float, seed: int) -> None:
        self.folder, self.longest = folder, longest
        self.random = random.Random(seed)
        make_run(folder)
        self.inputs = folder / "in"
        self.ids = make_corpus(self.inputs, rows)
        self.jobs = 0
        self.began = time.monotonic()
        driver = self._local(folder / "quiet")
        driver.ended(0)
        self.quiet = local_files(folder / "quiet")
        self.aside = set(rows_of(self.quiet, aside=True))
        self.say(f"quiet: {len(self.ids)} rows, {len(self.aside)} of them poison and set aside")

    def say(self, text: str) -> None:
        """Tell how far it is."""
        print(f"{time.monotonic() - self.began:6.0f} s: {text}", file=sys.stderr, flush=True)

    def local(self, count: int) -> dict[str, Any]:
        """Outages of folders."""
        figures, lengths = Counter[str](), self.lengths(count)
        while lengths:
            out = self._next()
            driver = self._local(out)
            while lengths and driver.progress():
                kind = LOCAL_KINDS[len(lengths) % len(LOCAL_KINDS)]
                place = self.inputs if kind.startswith("input") else out
                with _away(place) if kind.endswith("away") else _forbidden(place):
                    time.sleep(lengths[-1])
                self._outage(figures, kind, lengths.pop())
            driver.ended(0)
            self._compare(figures, local_files(out))
        return dict(figures)

    def s3(self, count: int) -> dict[str, Any]:
        """Outages of an object store that holds both input and output."""
        figures, lengths = Counter[str](), self.lengths(count)
        with S3Server(self.folder / "s3") as server, Forwarder(server.port) as forwarder:
            server.put("corpus", {f"in/{name}": (self.inputs / name).read_bytes() for name in FILES})
            while lengths:
                out = self._next().name
                driver = self._stored(server, forwarder, out)
                while lengths and driver.progress():
                    forwarder.kill()
                    time.sleep(lengths[-1])
                    forwarder.start()
                    self._outage(figures, "server killed", lengths.pop())
                driver.ended(0)
                self._compare(figures, stored_files(server, out))
        return dict(figures)

    def limit(self) -> dict[str, Any]:
        """Outages that last longer than they are retried; then the same command again."""
        figures = Counter[str]()
        for kind in LOCAL_KINDS[:2]:
            out = self._next()
            driver = self._local(out, LIMIT)
            assert driver.progress(), "it ended before the outage"
            with _away(self.inputs if kind.startswith("input") else out):
                driver.ended(OUTAGE_CODE)
            self.say(f"{kind}: ended with {OUTAGE_CODE}")
            assert not (out / "manifest.json").exists()
            self._local(out, LIMIT).ended(0)
            self._compare(figures, local_files(out))
            figures["beyond_limit"] += 1
        return {**figures, "limit_code": OUTAGE_CODE}

    def lengths(self, count: int) -> list[float]:
        """Seconds of each outage, from 1 to the longest: as many short ones as long ones, by their logarithm."""
        drawn = [math.exp(self.random.uniform(0, math.log(self.longest))) for _ in range(count - 2)]
        lengths = [1.0, self.longest, *drawn][:count]
        self.random.shuffle(lengths)
        return lengths

    def _next(self) -> Path:
        self.jobs += 1
        return self.folder / f"job-{self.jobs}"

    def _local(self, out: Path, timeout: float = 600) -> Labelling:
        return Labelling(
            self.folder, str(self.inputs), str(out), lambda: sum(1 for _ in out.rglob("records/*.json")), timeout
        )

    def _stored(self, server: S3Server, forwarder: Forwarder, out: str) -> Labelling:
        query = f"endpoint_override=127.0.0.1:{forwarder.port}&scheme=http&region=us-east-1"
        place = "s3://KEY:secret@corpus"
        return Labelling(
            self.folder, f"{place}/in?{query}", f"{place}/{out}?{query}", lambda: len(server.names("corpus", out))
        )

    def _outage(self, figures: Counter[str], kind: str, seconds: float) -> None:
        figures["outages"] += 1
        figures["seconds_out"] += round(seconds)
        self.say(f"{kind} for {seconds:.1f} s")

    def _compare(self, figures: Counter[str], files: dict[str, bytes]) -> None:
        """Compare a finished labelling with the quiet one."""
        ids = Counter(rows_of(files, aside=False)) + Counter(rows_of(files, aside=True))
        names = {*files, *self.quiet} if any("manifest" in name for name in files) else {*files, *_tables(self.quiet)}
        differ = sorted(name for name in names if files.get(name) != self.quiet.get(name))
        figures["jobs"] += 1
        figures["rows_lost"] += sum(not ids[row] for row in self.ids)
        figures["rows_twice"] += sum(count > 1 for count in ids.values())
        figures["good_rows_aside"] += len(set(rows_of(files, aside=True)) - self.aside)
        figures["bytes_differ"] += len(differ)
        self.say(f"job {self.jobs} done: {dict(figures)} {differ[:3]}")


@contextmanager
def _away(folder: Path) -> Iterator[None]:
    """A folder renamed away."""
    hidden = folder.with_name(f"{folder.name}-away")
    folder.rename(hidden)
    try:
        yield
    finally:
        hidden.rename(folder)


@contextmanager
def _forbidden(folder: Path) -> Iterator[None]:
    """A folder that nobody may look into."""
    mode = folder.stat().st_mode
    folder.chmod(0)
    try:
        yield
    finally:
        folder.chmod(mode)


def local_files(out: Path) -> dict[str, bytes]:
    """What must be the same to the byte: answers, what was set aside, and the manifests."""
    paths = [*out.rglob("*.parquet"), *out.rglob("manifest.json")]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def stored_files(server: S3Server, out: str) -> dict[str, bytes]:
    """The same of an object store, but for manifests: they hold the times and ETags of its input files."""
    names = dict(server.objects("corpus", out))
    assert f"corpus/{out}/manifest.json" in names
    return {name.removeprefix(f"corpus/{out}/"): data for name, data in names.items() if name.endswith(".parquet")}


def _tables(files: dict[str, bytes]) -> set[str]:
    return {name for name in files if name.endswith(".parquet")}


def rows_of(files: dict[str, bytes], aside: bool) -> list[str]:
    """The ids of all rows that were answered, or that were set aside."""
    import pyarrow.parquet as pq

    names = [name for name in _tables(files) if name.endswith(".aside.parquet") == aside]
    return [row for name in names for row in pq.read_table(io.BytesIO(files[name]), columns=["row"])["row"].to_pylist()]


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=36, help="outages (default 36), a third of them of the object store")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the corpus (default 20000)")
    parser.add_argument("--longest", type=float, default=120.0, help="seconds of the longest outage (default 120)")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of " + ", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=0, help="another one draws other lengths")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    parser.add_argument("--drive", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        sys.exit(drive(*args.drive))
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="o-") as name:
        proof = Proof(Path(name), args.rows, args.longest, args.seed)
        third = max(1, args.n // 3)
        work = {
            "local": partial(proof.local, max(1, args.n - third)),
            "s3": partial(proof.s3, third),
            "limit": proof.limit,
        }
        found = kept.by_parts("outage", {part: work[part] for part in args.parts.split(",")}, args.write)
        figures: dict[str, Any] = {
            "outages": 0,
            "rows": len(proof.ids),
            "good_rows_aside": 0,
            "poison": len(proof.aside),
        }
    for part in found.values():
        for key, value in part.items():
            figures[key] = value if key == "limit_code" else figures.get(key, 0) + value
    if args.write and set(found) == set(PARTS):
        write_page("outage", "A corpus labelled through outages", "make proof-outage", _page(figures, found))
    finish(figures)


def _page(figures: dict[str, Any], found: dict[str, dict[str, Any]]) -> str:
    outages = found["local"]["outages"] + found["s3"]["outages"]
    return (
        f"Through **{outages} outages of storage**, {figures['rows_lost']} rows were lost, {figures['rows_twice']} "
        f"labelled twice, and {figures['bytes_differ']} files differ from those of an undisturbed job.\n\n"
        f"A corpus of {figures['rows']:,} rows in JSONL, gzipped JSONL, CSV and Parquet files, {figures['poison']:,} "
        f"of them broken on purpose, is labelled by a Ray cluster of {NODES} nodes, in shards of {SHARD} rows, with a "
        "tiny model: once undisturbed, then through outages of 1 to 120 s, while shards are being labelled.\n\n"
        "| | |\n| --- | ---: |\n"
        f"| outages of folders: input or output renamed away, or without permission | {found['local']['outages']} |\n"
        f"| outages of an S3-compatible server: all its connections cut, and refused | {found['s3']['outages']} |\n"
        f"| seconds of outage | {figures['seconds_out']:,} |\n"
        f"| labelling jobs compared | {figures['jobs']} |\n"
        f"| rows lost | {figures['rows_lost']} |\n"
        f"| duplicate rows | {figures['rows_twice']} |\n"
        f"| good rows set aside | {figures['good_rows_aside']} |\n"
        f"| files that differ from those of the undisturbed job | {figures['bytes_differ']} |\n\n"
        f"With `--retry-timeout {LIMIT}`, {figures['beyond_limit']} outages lasted longer: each job ended with exit "
        f"code {figures['limit_code']} and without a manifest, and the same command finished it later, with the same "
        "bytes.\n\n"
        "The S3-compatible server is `moto_server`, behind a forwarder that is killed and restarted, since moto keeps "
        "its objects in memory."
    )


if __name__ == "__main__":
    main()
