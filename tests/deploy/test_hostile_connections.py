"""Connections that mean no good: clients that never read, two lengths for one body, headers beyond the limit."""

import contextlib
import itertools
import runpy
import socket
import time
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from serving import front, get, listening, post
from warmstart.deploy.serve.limits import Limits

HEAD = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
ASK = b'{"texts": ["good"]}'
PAGE = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def app(run):
    return front({"reviews": run.folder}, limits=Limits(seconds=0.3))


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("warmstart.deploy.serve.connections.IDLE_SECONDS", 0.5)


def never_reading(port, requests=8000):
    """A client that asks and asks, and never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.settimeout(0.1)
    with contextlib.suppress(OSError):
        client.sendall(PAGE * requests)
    return client


def within(seconds, true):
    """Whether something comes true in time."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def exchanged(port, raw):
    """All that comes back, until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(raw)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_clients_that_never_read_are_aborted(app, impatient):
    with listening(app) as (port, server):
        clients = [never_reading(port) for _ in range(3)]
        open_now = server.server_state.connections
        assert within(5, lambda: open_now)
        assert within(60, lambda: any(one.stalled_since for one in list(open_now)) or not open_now)
        assert within(30, lambda: not open_now), f"{len(open_now)} connections are kept"
        for client in clients:
            client.close()


def test_a_slow_reader_is_told_no_500(app):
    with listening(app) as (port, server), never_reading(port) as client:
        open_now = server.server_state.connections
        assert within(20, lambda: any(one.flow.write_paused for one in list(open_now)))
        time.sleep(1)  # longer than a response may take, and shorter than a connection may be idle
        client.settimeout(2)
        heard = b""
        with contextlib.suppress(OSError):
            while part := client.recv(1 << 20):
                heard += part
    assert b" 500 " not in heard


def test_beyond_the_limit_those_that_wait_longest_go_first(app, monkeypatch):
    monkeypatch.setattr("warmstart.deploy.serve.connections.MAX_CONNECTIONS", 4)
    with listening(app) as (port, server), contextlib.ExitStack() as clients:
        clients.enter_context(never_reading(port))
        assert within(20, lambda: any(one.flow.write_paused for one in list(server.server_state.connections)))
        idle = [clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(6)]
        for client in idle[-2:]:  # the newest are served, whoever came before
            client.sendall(HEALTH)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        assert within(2, lambda: len(server.server_state.connections) <= 4)
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""
        assert not any(one.stalled_since for one in list(server.server_state.connections))


def test_what_clients_do_not_fetch_is_bounded_together(app, monkeypatch):
    monkeypatch.setattr("warmstart.deploy.serve.connections.MAX_UNSENT_BYTES", 1 << 18)
    with listening(app) as (port, server), contextlib.ExitStack() as clients:
        for _ in range(12):
            clients.enter_context(never_reading(port))
        buffered = [one.transport.get_write_buffer_size() for one in list(server.server_state.connections)]
        assert sum(buffered) <= 1 << 18
        assert exchanged(port, HEALTH.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")).startswith(
            b"HTTP/1.1 200"
        )


def test_a_body_is_not_counted_while_its_answer_waits(app):
    with listening(app) as (port, _), contextlib.ExitStack() as clients:
        large = HEAD + b"content-length: %d\r\n\r\n" % (len(ASK) + 200_000) + ASK + b" " * 200_000
        client = clients.enter_context(never_reading(port))
        with contextlib.suppress(OSError):
            client.sendall(large)
        assert within(2, lambda: app._body_memory.bytes == 0)


@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 19\r\ntransfer-encoding: chunked\r\n\r\n13\r\n" + ASK + b"\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    ],
)
def test_two_lengths_are_refused_and_what_follows_is_not_answered(app, impatient, framing):
    with listening(app) as (port, _):
        heard = exchanged(port, HEAD + framing + HEALTH)
    assert heard.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in heard.lower()
    assert heard.count(b"HTTP/1.1 ") == 1


def test_chunks_of_an_old_protocol_are_refused(app, impatient):
    with listening(app) as (port, _):
        old = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"connection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"
        heard = exchanged(port, old + b"13\r\n" + ASK + b"\r\n0\r\n\r\n" + HEALTH)
    assert heard.startswith(b"HTTP/1.1 400")
    assert heard.count(b"HTTP/1.1 ") == 1


def test_headers_are_counted_even_if_they_come_at_once(app, impatient):
    def asked(size):
        line = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: "
        return exchanged(port, line + b"a" * (size - len(line) - 4) + b"\r\n\r\n")

    with listening(app) as (port, _):
        assert asked(16 * 1024 - 8).startswith(b"HTTP/1.1 200")
        for size in (16 * 1024 + 200, 17 * 1024, 60 * 1024):
            heard = asked(size)
            assert heard.startswith(b"HTTP/1.1 431"), size
            assert b"16,384 bytes" in heard
            assert b"connection: close" in heard.lower()


def test_while_draining_every_answer_closes_its_connection(app):
    app.draining = True
    try:
        replies = [post(app, {"texts": ["good"]}), get(app, "/ready"), get(app, "/health"), get(app, "/nowhere")]
    finally:
        app.draining = False
    assert [reply.status for reply in replies] == [503, 503, 200, 404]
    assert [reply.headers.get("connection") for reply in replies] == ["close"] * 4
    assert "connection" not in get(app, "/health").headers


def test_headers_are_read_the_same_in_any_order(app, impatient):
    """Whatever the order, the same request is never answered and refused."""
    lines = [b"content-length: 19\r\n", b"transfer-encoding: chunked\r\n", b"x: 1\r\n"]
    with listening(app) as (port, _):
        for order in itertools.permutations(lines):
            heard = exchanged(port, HEAD + b"".join(order) + b"\r\n13\r\n" + ASK + b"\r\n0\r\n\r\n")
            assert heard.startswith(b"HTTP/1.1 400")


def test_what_is_behind_a_request_of_unclear_length_is_not_answered(app, impatient):
    """A sample of `make proof-server`, each of its tricks once."""
    path = Path(__file__).resolve().parents[2] / "proofs" / "server_stalled.py"
    tricks = runpy.run_path(str(path))
    with listening(app) as (port, _):
        for trick in tricks["TRICKS"]:
            heard = exchanged(port, tricks["HEAD"] + trick + tricks["BEHIND"])
            assert heard.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408")), trick
            assert heard.count(b"HTTP/1.1 ") == 1, trick
