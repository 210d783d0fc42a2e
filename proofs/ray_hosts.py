"""A Ray cluster whose nodes are hosts in namespaces: a head, nodes that work, and a host for a second driver."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hosts import Host, Network

HEAD, STORE, FIRST = 1, 2, 10
"""Last numbers of addresses; every node that joins has a new one."""
PORT = 6379
RAY_FOLDER = Path("/tmp/ray")
CPUS = 2
"""Logical CPUs of a node that works."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # On a busy machine, a node takes longer to start than Ray waits by default.
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_enable_metrics_collection": "0",
    "RAY_TMPDIR": str(RAY_FOLDER.parent),
}
# Given ports are not waited for: a raylet ends itself where an agent takes 15 seconds to choose one.
AGENT_PORT = "52365"
AGENT_PORTS = (
    f"--dashboard-agent-listen-port={AGENT_PORT}",
    "--dashboard-agent-grpc-port=52366",
    "--metrics-export-port=52367",
    "--runtime-env-agent-port=52368",
)
START_SECONDS = 900


class Node:
    """A host with a Ray node on it."""

    def __init__(self, host: Host, process: subprocess.Popen[bytes], log: Path) -> None:
        self.host, self.process, self.log = host, process, log

    def left(self) -> bool:
        """Whether its Ray has ended by itself, as it does after the head gave it up."""
        return self.process.poll() is not None

    def joined(self) -> bool:
        """Whether it has joined the cluster."""
        return "Ray runtime started" in self.log.read_text(encoding="utf-8")

    def wait(self) -> None:
        """Wait until it has joined the cluster."""
        deadline = time.monotonic() + START_SECONDS
        while not self.joined():
            if self.left() or time.monotonic() > deadline:
                raise TimeoutError(f"{self.host.address} did not join: {self.log.read_text(encoding='utf-8')[-3000:]}")
            time.sleep(0.5)


class RayHosts:
    """A cluster.

    Args:
        folder: For logs and Ray's sessions, a folder of each host.
        count: Nodes that work.
        before: Runs first in each process of Ray and of drivers.
    """

    def __init__(self, network: Network, folder: Path, count: int, before: Callable[[], None] | None = None) -> None:
        os.environ.update(ENVIRONMENT, RAY_AUTH_TOKEN=secrets.token_hex(32))
        RAY_FOLDER.mkdir(exist_ok=True)
        self.network, self.folder, self.before = network, folder, before
        self.next = FIRST
        self.address = ""
        self.head = self._node(HEAD, "--head", f"--port={PORT}", "--include-dashboard=false", "--num-cpus=0")
        self.address = f"{self.head.host.address}:{PORT}"
        self.head.wait()
        self.nodes = [self.join(CPUS) for _ in range(count)]

    def join(self, cpus: int) -> Node:
        """A new node, on a new host; it takes a while until the cluster counts on it."""
        self.next += 1
        assert self.next < 254, "no addresses left"
        return self._node(self.next, f"--address={self.address}", f"--num-cpus={cpus}")

    def replace(self, at: int) -> None:
        """Switch a node that works off, and let a new one join."""
        self.nodes[at].host.off()
        self.nodes[at] = self.join(CPUS)

    def wait(self) -> None:
        """Wait until all nodes that work have joined."""
        for node in self.nodes:
            node.wait()

    def run(self, host: Host, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a program on a host."""
        return host.start(command, log, self.before)

    def _node(self, number: int, *options: str) -> Node:
        session = self.folder / f"host-{number}"
        session.mkdir(parents=True)
        host = self.network.host(number, {RAY_FOLDER: session})
        command = [
            str(Path(sys.executable).with_name("ray")),
            "start",
            "--block",
            f"--node-ip-address={host.address}",
            "--object-store-memory=80000000",
            "--include-log-monitor=false",
            *AGENT_PORTS,
            *options,
        ]
        log = self.folder / f"host-{number}.log"
        process = self.run(host, command, log)
        threading.Thread(target=write_agent_port, args=(process.pid, session), daemon=True).start()
        return Node(host, process, log)


def write_agent_port(start: int, session: Path) -> None:
    """Write the port of a node's agent where its raylet looks for it.

    The agent does so itself, but a raylet ends itself after 15 seconds without, and on a busy machine the agent is not
    up by then. The raylet is below the process `start`.
    """
    import psutil

    with suppress(psutil.Error):
        while True:
            for process in psutil.Process(start).children(recursive=True):
                with suppress(psutil.Error):
                    ids = [word.partition("=")[2] for word in process.cmdline() if word.startswith("--node_id=")]
                    for place in session.glob("session_2*") if ids else ():
                        (place / f"dashboard_agent_listen_port_{ids[0]}").write_text(AGENT_PORT, encoding="utf-8")
                        return
            time.sleep(1)
