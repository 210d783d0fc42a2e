"""A real `warmstart serve`: its answers, its sockets, a model swapped under load, and its end."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from processes import one_ray, started
from small import reviews
from warmstart.storage.artifacts import republish

sys.path.insert(0, str(Path(__file__).parents[2] / "proofs"))

psutil = pytest.importorskip("psutil")
pytest.importorskip("ray")

TEXTS = [text for text, _ in reviews(40, start=5000)]
PATIENCE = 120


class Served:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict] = []
        self.said = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        line = self.process.stdout.readline()
        assert line, self.lines
        self.url = json.loads(line)["url"]

    def _listen(self) -> None:
        for line in self.process.stderr:
            with self.said:
                self.lines.append(json.loads(line) if line.startswith("{") else {"line": line})
                self.said.notify_all()

    def wait_for(self, event: str) -> dict:
        """The line of the log that tells an event."""
        with self.said:
            found = self.said.wait_for(lambda: [one for one in self.lines if one.get("event") == event], PATIENCE)
        assert found, self.lines[-5:]
        return found[-1]

    def ask(self, path: str, body: dict | None = None) -> tuple[int, dict]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as found:
                return found.status, json.load(found)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def path() -> str:
    import warmstart

    return os.pathsep.join([str(Path(warmstart.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return Path(shutil.copytree(run.folder, tmp_path_factory.mktemp("served") / "reviews"))


@pytest.fixture(scope="module")
def server(folder):
    command = [
        sys.executable,
        "-m",
        "warmstart.cli.main",
        "serve",
        f"reviews={folder}",
        "--port",
        "0",
        "--json",
        "--explain",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with one_ray(), started(command, env={**os.environ, "PYTHONPATH": path()}, **pipes) as process:
        yield Served(process)


def test_answers_are_those_of_a_local_predictor(server, run):
    status, found = server.ask("/v1/predict", {"texts": TEXTS})
    assert status == 200
    for ours, local in zip(found["answers"], run.predict(TEXTS), strict=True):
        assert ours["label"] == local["label"]
        assert ours["probabilities"] == pytest.approx(local["probabilities"], abs=1e-6)


def test_an_answer_is_explained_by_a_replica(server, run):
    status, found = server.ask("/v1/explain", {"texts": TEXTS[:1]})
    assert status == 200
    [answer] = found["answers"]
    assert answer["label"] == run.predict(TEXTS[:1])[0]["label"]
    assert " ".join(word["text"] for word in answer["explanation"]["words"]).startswith(TEXTS[0].split()[0])


def test_it_is_described_and_counted(server):
    assert server.ask("/health") == (200, {"status": "alive"})
    assert server.ask("/ready") == (200, {"status": "ready"})
    _, found = server.ask("/openapi.json")
    for place, one in found["paths"].items():
        if "post" in one:
            example = one["post"]["requestBody"]["content"]["application/json"]["example"]
            assert server.ask(place, example)[0] == 200
    with urllib.request.urlopen(server.url + "/metrics", timeout=PATIENCE) as told:
        assert 'warmstart_requests_total{model="reviews",status="200"}' in told.read().decode()
    assert server.ask("/v1/predict", {"texts": [1]})[0] == 400


def test_every_socket_is_on_loopback(server):
    main = psutil.Process(server.process.pid)
    heard = [
        (one.name(), place.laddr.ip)
        for one in (main, *main.children(recursive=True))
        for place in one.net_connections("inet")
        if place.status == psutil.CONN_LISTEN
    ]
    assert heard
    assert [one for one in heard if one[1].removeprefix("::ffff:") not in ("127.0.0.1", "::1")] == []


def test_malformed_requests_are_told_so(server):
    from server_load import closed_loop
    from server_wrong import bombs, wrong_requests

    port, found = int(server.url.rpartition(":")[2]), []
    requests = wrong_requests(0, 200)
    asyncio.run(closed_loop(port, 4, requests, lambda raw, status, body, seconds: found.append(status)))
    assert len(found) == 200
    assert set(found) <= {0, 400, 404, 405, 408, 413, 415, 421}
    told = asyncio.run(bombs(port, slow=0))
    assert max(told.values()) < 500
    assert told["gzip of 100 MB"] == 415
    assert server.ask("/ready")[0] == 200


def test_more_than_it_can_answer_is_told_to_come_again(server):
    from server_load import NOT_SENT, open_loop, texts

    port = int(server.url.rpartition(":")[2])
    codes = asyncio.run(open_loop(port, 1000, 2, texts(*TEXTS), 512))
    assert set(codes) - {NOT_SENT} == {200, 429}
    assert server.ask("/ready")[0] == 200


def test_a_changed_run_is_swapped_in_without_a_failed_request(server, folder):
    _, before = server.ask("/v1/models")
    statuses: list[int] = []
    stop = threading.Event()

    def load():
        while not stop.is_set():
            statuses.append(server.ask("/v1/predict", {"texts": TEXTS[:4]})[0])

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with republish(folder / "model") as staging:
            (staging / "note.txt").write_text("another state", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("swapped")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(statuses) > 10
    assert set(statuses) == {200}
    assert server.ask("/v1/models")[1]["models"][0]["version"] != before["models"][0]["version"]


def test_a_damaged_run_is_refused_and_the_old_one_stays(server, folder):
    manifest = folder / "model" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seal": "', '"seal": "0'))
    server.process.send_signal(signal.SIGHUP)
    assert "was changed" in server.wait_for("swap refused")["reason"]
    assert server.ask("/v1/predict", {"texts": ["good"]})[0] == 200


def test_sigterm_lets_what_is_under_way_end(server):
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(server.ask("/v1/predict", {"texts": TEXTS * 6})[0]))
    asking.start()
    while asking.is_alive():
        with urllib.request.urlopen(server.url + "/metrics", timeout=PATIENCE) as told:
            if 'warmstart_queue_texts{model="reviews"} 240.0' in told.read().decode():
                break
    server.process.send_signal(signal.SIGTERM)
    asking.join()
    assert found == [200]
    assert server.process.wait(PATIENCE) == 0
    assert [one["event"] for one in server.lines if "event" in one][-1] == "draining"
