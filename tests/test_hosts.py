"""The hosts of the proof with a cluster: they are cut off and switched off, and nothing of them is left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PROOFS = Path(__file__).resolve().parents[1] / "proofs"
SCRIPT = """
import json, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import hosts
hosts.alone()
network = hosts.Network()
first, second, third = (network.host(number) for number in (1, 2, 3))

def reaches(host, other, seconds=10):
    code = f"import socket, sys; socket.create_connection((sys.argv[1], 9), {seconds})"
    command = [*host.enter, sys.executable, "-S", "-c", code, other.address]
    # A host refuses the connection where it is reached: nobody listens.
    return "ConnectionRefused" in subprocess.run(command, capture_output=True, text=True).stderr

states = {}
states["together"] = reaches(first, second)
with first.unplugged():
    states["unplugged"] = reaches(first, second, seconds=0.5)
with hosts.separated([first, second]):
    states["separated"], states["others"] = reaches(first, second, seconds=0.5), reaches(first, third)
states["again"] = reaches(first, second)
program = second.start(["sleep", "1000"], hosts.Path("/dev/null"))
second.off()
states["off"] = program.wait(10) != 0
print(json.dumps(states), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def script(tmp_path):
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("needs root, and `ip` of iproute2")
    done = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine allows no namespaces of one's own: {done.stderr.strip()}")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_hosts_are_cut_off_and_switched_off_and_nothing_outlives_sigkill(script):
    process = subprocess.Popen([sys.executable, script, PROOFS], stdout=subprocess.PIPE, text=True)
    states = json.loads(process.stdout.readline())
    assert states == {
        "together": True,
        "unplugged": False,
        "separated": False,
        "others": True,
        "again": True,
        "off": True,
    }
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) > 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in below):
        assert time.monotonic() < deadline, "processes of hosts are left"
        time.sleep(0.05)
