"""Hosts on one machine: each has its own network, processes and mounts, and a cable to one switch.

Everything is in namespaces below that of the calling process, which `alone` gives a network and process namespace of
its own. The kernel ends all of it with that process, however it ends: nothing is left to clean up, even after SIGKILL.
Nothing in these namespaces reaches a network outside of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SUBNET = "10.77.0"
SWITCH, SWITCH_NUMBER = "switch", 254
UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
INSIDE = "WARMSTART_PROOF_INSIDE"
START_SECONDS = 30


def alone() -> None:
    """Start this program again in namespaces of its own, unless it is in them; leaves, saying why, if it cannot."""
    if os.environ.get(INSIDE):
        run("ip", "link", "set", "lo", "up")
        return
    os.environ[INSIDE] = "1"
    try:
        os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv])
    except OSError as error:
        sys.exit(f"unshare: {error}: install util-linux, or run this where namespaces can be made")


def run(*command: str) -> None:
    """Run a program of iproute2; an error says what it said."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


class Network:
    """A switch, in the network namespace of this process, and the hosts connected to it."""

    def __init__(self) -> None:
        self.hosts: dict[int, Host] = {}
        run("ip", "link", "add", SWITCH, "type", "bridge")
        run("ip", "address", "add", f"{SUBNET}.{SWITCH_NUMBER}/24", "dev", SWITCH)
        run("ip", "link", "set", SWITCH, "up")

    def host(self, number: int, mounts: Mapping[Path, Path] | None = None) -> Host:
        """A new host, by the last number of its address; one that had this number must be off."""
        self.hosts[number] = Host(number, mounts or {})
        return self.hosts[number]

    def close(self) -> None:
        """Switch all hosts off, and take the switch away."""
        for host in self.hosts.values():
            host.off()
        run("ip", "link", "delete", SWITCH)


class Host:
    """A host: a process that does nothing, and all that is started beside it.

    Args:
        mounts: Folders of the machine that this host has elsewhere: by their place on the host.
    """

    def __init__(self, number: int, mounts: Mapping[Path, Path]) -> None:
        self.number, self.address, self.port = number, f"{SUBNET}.{number}", f"port{number}"
        # Its own error is noise: util-linux complains of a signal mask when its child is killed.
        self.holder = subprocess.Popen([*UNSHARE, "sleep", "infinity"], stderr=subprocess.DEVNULL)
        self.init = self._first_process()
        self.enter_network = ["nsenter", "--target", str(self.init), "--net", "--"]
        self.enter = [*self.enter_network[:-1], "--mount", "--pid", "--"]
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        run("ip", "link", "set", self.port, "master", SWITCH)
        run("ip", "link", "set", self.port, "up")
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{self.address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
            *(("mount", "--bind", str(source), str(place)) for place, source in mounts.items()),
        ):
            run(*self.enter, *command)

    def start(
        self, command: Sequence[str], log: Path, before: Callable[[], None] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program on this host; `before` runs in its process first."""
        with log.open("ab") as file:
            return subprocess.Popen([*self.enter, *command], stdout=file, stderr=file, preexec_fn=before)

    def off(self) -> None:
        """SIGKILL all of its processes at once, as a power cut does; its cable goes with them."""
        if self.holder.poll() is None:
            os.kill(self.init, signal.SIGKILL)
            self.holder.wait()
            # The kernel removes the cable as well, but later.
            subprocess.run(["ip", "link", "delete", self.port], capture_output=True)

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """No packet reaches this host, or leaves it."""
        run("ip", "link", "set", self.port, "down")
        try:
            yield
        finally:
            run("ip", "link", "set", self.port, "up")

    def _first_process(self) -> int:
        """The first process in the host's namespaces, once it is there."""
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.holder.poll() is not None:
                sys.exit(f"unshare ended with {self.holder.returncode}: namespaces cannot be made here")
            pids = children.read_text().split()
            if pids and Path(f"/proc/{pids[0]}/comm").read_text().strip() == "sleep":
                return int(pids[0])
            time.sleep(0.01)
        raise TimeoutError(f"no process on host {self.number}")


@contextmanager
def separated(hosts: Sequence[Host]) -> Iterator[None]:
    """No packet passes between these hosts; all others are reached, and reach them, as before."""
    for host in hosts:
        run("ip", "link", "set", host.port, "type", "bridge_slave", "isolated", "on")
    try:
        yield
    finally:
        for host in hosts:
            run("ip", "link", "set", host.port, "type", "bridge_slave", "isolated", "off")
