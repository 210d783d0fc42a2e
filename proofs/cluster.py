"""A corpus labelled by a Ray cluster of hosts in namespaces while nodes die, cables are pulled and the store goes away.

Part `store`: two drivers label one corpus of an object store into one folder of it. Nodes are killed with all their
processes, and new ones join; cables between drivers and nodes are pulled for shorter and for longer than the head of
the cluster waits; the store's connections are cut. Part `disk`: one driver labels into a folder on a disk that writes
slowly, while nodes are killed. Every row must be there once, with the bytes of a quiet run. With `--write`, what a part
measured is kept, and the page is written when both are there.

It makes network, process and mount namespaces, so it is run as root; no packet leaves them.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import kept
from cluster_page import page
from common import finish, write_page
from exactly_once import FILES, make_corpus, make_run
from hosts import Network, alone, separated
from outage import local_files, rows_of
from ray_hosts import STORE, Node, RayHosts
from s3_server import Forwarder, S3Server, moto_server
from slow_disk import join, slow_disk, write_speed

PARTS = ("store", "disk")
NODES = 3
SHARD = 50
WORKERS = (2, 1)
"""Of each driver."""
DISK_BYTES = 1 << 20
"""Bytes per second that the slow disk writes, and that it reads."""
PARTITIONS = ("node, short", "node, long", "node from head, long", "driver, short", "driver, long")
SHORT, LONG = (3.0, 8.0), (75.0, 90.0)
"""Seconds. The head gives a silent node up after about a minute; a driver gives a silent head up after 30 seconds."""
OUTAGE = (2.0, 40.0)
WITH_A_MESSAGE = {6, 9, 11, 74}
"""Exit codes of errors that say what happened, and after which the same command goes on."""
JOB_SECONDS = 3600
MAX_STARTS = 50
LEAVE_SECONDS = 120
"""How long a driver may take to end by itself once its host's Ray has."""
BUCKET = "corpus"
PREFIX = "warmstart-cluster-"

Files = dict[str, bytes]


class LabelDriver:
    """`warmstart predict --ray`, started again by the same command until it ends well."""

    def __init__(self, cluster: RayHosts, node: Node, arguments: Sequence[str], log: Path) -> None:
        self.cluster, self.node, self.log = cluster, node, log
        program = [sys.executable, "-m", "warmstart.cli.main", "predict"]
        self.command = [*program, *arguments, "--ray", cluster.address, "--json"]
        self.codes: list[int] = []
        self._start()

    def _start(self) -> None:
        self.process = self.cluster.run(self.node.host, self.command, self.log)

    def done(self) -> bool:
        """Whether it ended well; where it ended otherwise, or its host's Ray has, it is started again."""
        code = self.process.poll()
        if code == 0:
            return True
        if self.node is not self.cluster.head and self.node.left():
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LEAVE_SECONDS)  # it should say by itself that its cluster is gone
            self.node.host.off()
            code = self.process.wait()
            if code == 0:
                return True
            self.node = self.cluster.join(cpus=0)
            self.node.wait()
        if code is not None:
            self.codes.append(code)
            assert len(self.codes) < MAX_STARTS, f"a driver ends again and again: {self.codes}; see {self.log}"
            self._start()
        return False


class Disturbance:
    """What is done to a cluster while it works: each event once there was progress since the last one."""

    def __init__(self, proof: Proof, cluster: RayHosts, events: list[tuple[str, Callable[[], None]]]) -> None:
        self.proof, self.cluster, self.events = proof, cluster, events
        self.seen: Any = None

    def step(self, progress: Callable[[], Any]) -> None:
        """Do the next event, if it is time for one; replace nodes that left by themselves."""
        for at, node in enumerate(self.cluster.nodes):
            if node.left():
                self.proof.figures["nodes_left"] += 1
                self.proof.say(f"node {node.host.address} left by itself; a new one joins")
                self.cluster.replace(at)
        state = progress()
        if not self.events or state == self.seen or not state:
            return
        time.sleep(self.proof.random.uniform(0, 3))
        name, act = self.events.pop()
        self.proof.say(name)
        act()
        self.proof.figures[name.partition(":")[0]] += 1
        self.seen = progress()


class Proof:
    """The same labelling, quiet and disturbed."""

    def __init__(self, folder: Path, rows: int, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.began = time.monotonic()
        self.run = make_run(folder)
        self.inputs = folder / "in"
        self.ids = make_corpus(self.inputs, rows)
        self.figures = Counter[str]()
        self.codes = Counter[str]()
        self.quiet: Files = {}
        self.drivers: list[LabelDriver] = []

    def say(self, text: str) -> None:
        """Tell how far it is."""
        print(f"{time.monotonic() - self.began:6.0f} s: {text}", file=sys.stderr, flush=True)

    def arguments(self, inputs: str, out: str, workers: int) -> list[str]:
        """What a driver is called with."""
        size = ["--rows-per-shard", str(SHARD), "--files-per-group", "2"]
        return [str(self.run), "--file", inputs, "--out", out, "--workers", str(workers), *size]

    def store(self, kills: int, partitions: Sequence[str], outages: int) -> dict[str, Any]:
        """Two drivers on one folder of an object store."""
        with ExitStack() as stack:
            network = Network()
            stack.callback(network.close)
            host = network.host(STORE)
            enter = host.enter_network
            server = stack.enter_context(S3Server(self.folder / "s3", host.address, enter))
            forwarder = stack.enter_context(Forwarder(server.port, host.address, enter))
            server.put(BUCKET, {f"in/{name}": (self.inputs / name).read_bytes() for name in FILES})
            cluster = RayHosts(network, self.folder / "store", NODES)
            second = cluster.join(cpus=0)
            second.wait()
            cluster.wait()
            self.say(f"{NODES} nodes, a head and a second driver's host are up")
            query = f"endpoint_override={forwarder.host}:{forwarder.port}&scheme=http&region=us-east-1"
            place = f"s3://KEY:secret@{BUCKET}"
            events = self._kills(cluster, kills)
            events += [(f"outages: {number + 1}", partial(self._outage, forwarder)) for number in range(outages)]
            events += [(f"partitions: {kind}", partial(self._partition, cluster, kind)) for kind in partitions]
            self.random.shuffle(events)
            job = 0
            while not job or events:
                out = f"job-{job}"
                self.drivers = [
                    LabelDriver(
                        cluster,
                        node,
                        self.arguments(f"{place}/in?{query}", f"{place}/{out}?{query}", workers),
                        self.folder / f"driver-{number}.log",
                    )
                    for number, (node, workers) in enumerate(zip((cluster.head, second), WORKERS, strict=True))
                    if number == 0 or job
                ]
                self._label(cluster, events if job else [], partial(_changes, server, out))
                second = self.drivers[-1].node if job else second
                self._compare(_stored(server, out), quiet=not job)
                job += 1
            return self._part(drivers=len(WORKERS))

    def disk(self, kills: int, disk: Path) -> dict[str, Any]:
        """One driver, and a folder on a slow disk."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=disk, prefix=PREFIX)))
            refusal = stack.enter_context(slow_disk(folder, DISK_BYTES))
            if refusal:
                self.say(refusal)
                return {"slow_disk": refusal}
            speeds = [round(write_speed(folder, 4 << 20, limited)) for limited in (False, True)]
            self.say(f"the disk writes {speeds[0]:,} bytes per second, with the limit {speeds[1]:,}")
            network = Network()
            stack.callback(network.close)
            cluster = RayHosts(network, folder / "hosts", NODES, before=partial(join, 0))
            cluster.wait()
            events = self._kills(cluster, kills)
            job = 0
            while not job or events:
                out = folder / f"job-{job}"
                arguments = self.arguments(str(self.inputs), str(out), WORKERS[0])
                self.drivers = [LabelDriver(cluster, cluster.head, arguments, self.folder / "driver-disk.log")]
                self._label(cluster, events if job else [], partial(_written, out))
                self._compare(local_files(out), quiet=not job)
                job += 1
            return self._part(slow_disk=speeds)

    def _kills(self, cluster: RayHosts, count: int) -> list[tuple[str, Callable[[], None]]]:
        def kill() -> None:
            joined = [at for at, node in enumerate(cluster.nodes) if node.joined()]
            cluster.replace(self.random.choice(joined or range(NODES)))

        return [(f"node_kills: {number + 1}", kill) for number in range(count)]

    def _outage(self, forwarder: Forwarder) -> None:
        forwarder.kill()
        time.sleep(self.random.uniform(*OUTAGE))
        forwarder.start()

    def _partition(self, cluster: RayHosts, kind: str) -> None:
        """Pull a cable for a while."""
        node, driver = self.random.choice(cluster.nodes).host, self.drivers[-1].node.host
        cut: AbstractContextManager[None]
        if kind.startswith("node from head"):
            cut = separated([cluster.head.host, node])
        else:
            cut = (node if kind.startswith("node") else driver).unplugged()
        with cut:
            time.sleep(self.random.uniform(*(SHORT if kind.endswith("short") else LONG)))

    def _label(
        self,
        cluster: RayHosts,
        events: list[tuple[str, Callable[[], None]]],
        progress: Callable[[], Any],
    ) -> None:
        """Wait until all drivers ended well, while events take place."""
        disturbance, deadline = Disturbance(self, cluster, events), time.monotonic() + JOB_SECONDS
        waiting = list(self.drivers)
        while waiting:
            disturbance.step(progress)
            waiting = [driver for driver in waiting if not driver.done()]
            assert time.monotonic() < deadline, f"{len(waiting)} drivers are stuck; see {self.folder}"
            time.sleep(1)
        for driver in self.drivers:
            self.codes.update("resumed" if code in WITH_A_MESSAGE else "crashed" for code in driver.codes)
            if driver.codes:
                self.say(f"driver on {driver.node.host.address} ended before with {driver.codes}")

    def _compare(self, files: Files, quiet: bool) -> None:
        """Compare a finished labelling with the quiet one."""
        self.quiet = files if quiet else self.quiet
        aside = rows_of(files, aside=True)
        ids = Counter(rows_of(files, aside=False)) + Counter(aside)
        differ = sorted(name for name in {*files, *self.quiet} if files.get(name) != self.quiet.get(name))
        self.figures["jobs"] += not quiet
        self.figures["lost"] += sum(not ids[row] for row in self.ids)
        self.figures["doubled"] += sum(count > 1 for count in ids.values())
        self.figures["good_rows_aside"] += len(set(aside) - set(rows_of(self.quiet, aside=True)))
        self.figures["different"] += len(differ)
        self.say(f"job done: {len(files)} files, {dict(self.figures)} {differ[:3]}")

    def _part(self, **more: Any) -> dict[str, Any]:
        names = ("node_kills", "partitions", "outages", "nodes_left", "jobs", "lost", "doubled", "good_rows_aside")
        figures = {name: self.figures[name] for name in (*names, "different")}
        codes = {f"drivers_{name}": self.codes[name] for name in ("resumed", "crashed")}
        self.figures.clear()
        self.codes.clear()
        return {**figures, **codes, **more}


def _changes(server: S3Server, out: str) -> Any:
    """What changes with every shard that is finished, also for the second time."""
    from pyarrow import fs

    selector = fs.FileSelector(f"{BUCKET}/{out}", recursive=True, allow_not_found=True)
    infos = server.system().get_file_info(selector)
    return sorted((info.path, info.mtime_ns) for info in infos if "/records/" in info.path)


def _written(out: Path) -> int:
    return sum(1 for _ in out.rglob("records/*.json"))


def _stored(server: S3Server, out: str) -> Files:
    """Answers, what was set aside, and the manifests."""
    names = dict(server.objects(BUCKET, out))
    ends = (".parquet", "/manifest.json")
    return {name.removeprefix(f"{BUCKET}/{out}"): data for name, data in names.items() if name.endswith(ends)}


def only_one(folder: Path) -> None:
    """Remove the folders of an earlier proof that was killed; leaves where another one is at work.

    Namespaces and their processes end with a killed proof, its folders do not. The lock lasts as long as the process.
    """
    lock = os.open(folder / f"{PREFIX}lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("another proof with a cluster is at work on this machine; wait until it has ended")
    for path in folder.glob(f"{PREFIX}*"):
        if path.is_dir():
            shutil.rmtree(path)


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20, help="nodes killed (default 20), a quarter beside the slow disk")
    parser.add_argument("--partitions", type=int, default=5, help="cables pulled (default 5, and at most)")
    parser.add_argument("--outages", type=int, default=5, help="outages of the store (default 5)")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the corpus (default 20000)")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of " + ", ".join(PARTS))
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="a folder on a disk (default /var/tmp)")
    parser.add_argument("--seed", type=int, default=0, help="another one draws other instants")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    if "store" in args.parts:
        moto_server()  # installed while there is a network
    alone()
    quarter = args.n // 4
    for folder in {Path(tempfile.gettempdir()), args.disk}:
        only_one(folder)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        proof = Proof(Path(name), args.rows, args.seed)
        work = {
            "store": partial(proof.store, args.n - quarter, PARTITIONS[: args.partitions], args.outages),
            "disk": partial(proof.disk, quarter, args.disk),
        }
        parts = kept.by_parts("cluster", {part: work[part] for part in args.parts.split(",")}, args.write)
        figures: dict[str, Any] = {"nodes": NODES, "rows": len(proof.ids)}
    for part in parts.values():
        for key, value in part.items():
            figures[key] = figures.get(key, 0) + value if isinstance(value, int) else value
    if args.write and set(parts) == set(PARTS):
        write_page("cluster", "A cluster of hosts on one machine", "make proof-cluster", page(figures, parts))
    finish(figures)


if __name__ == "__main__":
    main()
