"""The front of a server, without a cluster: what it lets through, and what it says to all else."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("prometheus_client")

from serving import ask, front, get, listening, post
from warmstart.cli.serve import _loopback, _token
from warmstart.deploy.serve.limits import Limits, check_shape
from warmstart.deploy.serve.named_runs import named_runs
from warmstart.deploy.serve.refusals import Refusal
from warmstart.errors import RecipeError

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def app(run):
    return front({"reviews": run.folder}, limits=Limits(seconds=0.3))


@pytest.fixture(scope="module")
def closed(run):
    return front({"reviews": run.folder}, token=TOKEN)


def test_answers_are_those_of_the_predictor(app, run):
    texts = ["a good film", "the film was terrible and very boring"]
    found = post(app, {"texts": texts}, "/v1/models/reviews/predict")
    assert found.status == 200
    assert found.json["answers"] == run.predict(texts)
    assert found.json["model"] == "reviews"


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        (b"", 400, "body"),
        (b"{", 400, "body"),
        (b"[1]", 400, "body"),
        (b'{"texts": ["a"], "texts": ["b"]}', 400, "body"),
        (b'{"texts": ["a"], "more": 1}', 400, "body"),
        (b'{"\\ud800": 1, "\\ud800": 2}', 400, "body"),
        (b'{"texts": "a"}', 400, "texts"),
        (b'{"texts": []}', 400, "texts"),
        (b'{"texts": [NaN]}', 400, "body"),
        (b'{"texts": [1e999]}', 400, "body"),
        (b'{"texts": [' + b"9" * 5000 + b"]}", 400, "body"),
        (b'{"texts": ["a", 7]}', 400, "texts[1]"),
        (b'{"texts": ["a", " "]}', 400, "texts[1]"),
        (b'{"texts": ["a", ["b", "c"]]}', 400, "texts[1]"),
        (b'{"texts": ["\\ud800"]}', 400, "texts[0]"),
        (b'{"texts": ["\xff"]}', 400, "body"),
        (b"[" * 100_000, 413, "body"),
        (b"[" * 10_000, 400, "body"),
        (b'{"texts": [' + b'"a",' * 300 + b'"a"]}', 413, "texts"),
        (b'{"texts": ["' + b"a" * 100_001 + b'"]}', 413, "texts[0]"),
        (b'{"texts": [' + b",".join([b'"' + b"a" * 99_000 + b'"'] * 6) + b"]}", 413, "texts"),
        (b" " * 1_100_000, 413, "body"),
    ],
)
def test_a_bad_body_is_told_what_and_where(app, body, status, where):
    found = post(app, body)
    assert found.status == status
    error = found.json["error"]
    assert error["where"] == where
    assert error["what"]
    assert error["expected"]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"text": "a good film"}, ["a good film"]),
        ({"inputs": ["good", "bad"], "parameters": {}}, ["good", "bad"]),
        ({"Texts": ["good"]}, ["good"]),
        ({"texts": "a good film"}, ["a good film"]),
        ("a good film", ["a good film"]),
        (["good", "bad"], ["good", "bad"]),
        ({"text": "good " * 200}, [("good " * 200)[:80] + "…"]),
    ],
)
def test_a_body_of_another_server_is_answered_with_the_one_to_send(app, value, texts):
    error = post(app, json.dumps(value).encode()).json["error"]
    assert "`texts`" in error["expected"] or error["where"] == "texts"
    assert error["send"] == {"texts": texts}
    assert post(app, error["send"]).status == 200


def test_where_nothing_shows_the_texts_no_body_is_proposed(app):
    for value in ([1], 7, {}, {"text": 1}, {"question": "a", "context": "b"}, {"text": "a", "input": "b"}):
        assert "send" not in post(app, json.dumps(value).encode()).json["error"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to paste into")
@pytest.mark.parametrize(
    ("form", "texts"),
    [
        (b'{"texts": ["a good film"]}', ["a good film"]),
        (b"text=a+good+film&more=1", ["a good film"]),
        ("l'été: 100% «bon» $HOME `ls` !! 👍🏽".encode(), ["l'été: 100% «bon» $HOME `ls` !! 👍🏽"]),
        (b'say "good" \\ ', ["a text"]),
        (b"\xff\x00", ["a text"]),
        (b"", ["a text"]),
    ],
)
def test_a_form_is_answered_with_a_line_to_paste(app, form, texts):
    """As it is decoded from JSON, and as a terminal shows it before."""
    refused = post(app, form, headers={"content-type": "application/x-www-form-urlencoded", "host": "localhost:8000"})
    assert refused.status == 415
    shown = refused.body.decode().partition('"curl": "')[2].removesuffix('"}}')
    for line in (refused.json["error"]["curl"], shown):
        assert line.startswith("curl http://localhost:8000/v1/predict -H 'content-type: application/json' -d ")
        words = subprocess.run(
            ["bash", "-c", "curl() { printf '%s' \"${@: -1}\"; }; " + line],
            capture_output=True,
            check=True,
            env={"LC_ALL": "C.UTF-8"},
        )
        assert json.loads(words.stdout) == {"texts": texts}
        assert post(app, words.stdout).status == 200


def test_the_line_to_paste_asks_for_the_token_and_takes_no_foreign_host(closed):
    headers = {"content-type": "application/x-www-form-urlencoded", "authorization": f"Bearer {TOKEN}"}
    line = post(closed, b"good", headers={**headers, "host": "a';reboot;'"}).json["error"]["curl"]
    assert line.startswith("curl http://127.0.0.1:8000/")
    assert "-H 'authorization: Bearer TOKEN'" in line
    assert TOKEN not in line


def test_limits_hold_before_the_body_is_read(app):
    large = post(app, b"{}", headers={"content-length": "100000000"})
    assert large.status == 413
    assert post(app, b"\x1f\x8b", headers={"content-encoding": "gzip"}).status == 415
    assert post(app, b"{}", headers={"content-type": "text/plain"}).status == 415
    slow = post(app, [b"{", b'"texts"', b": 1}"], pause=0.2)
    assert slow.status == 408
    assert slow.headers["connection"] == "close"


def test_bodies_together_are_bounded(run):
    app = front({"reviews": run.folder}, limits=Limits(held_bytes=100))
    assert post(app, b" " * 200).status == 429
    assert post(app, {"texts": ["good"]}).status == 200  # none is held any longer


def test_the_shape_is_seen_in_linear_time():
    started = time.process_time()
    for bomb in (b'"' + b'\\"' * 500_000, b'"' * 1_000_001, b'"\\', b'"[[[["' * 10_000):
        check_shape(bomb, Limits())
    assert time.process_time() - started < 2
    with pytest.raises(Refusal):
        check_shape(b'"[" [[' * 20, Limits(depth=16))


def test_paths_and_methods(app):
    missing = post(app, {"texts": ["a"]}, "/v1/models/review/predict")
    assert missing.status == 404
    assert "'reviews'" in missing.json["error"]["expected"]
    assert get(app, "/v1/prdict").json["error"]["expected"] == "did you mean '/v1/predict'?"
    wrong = get(app, "/v1/predict")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert get(app, "/v1/models").json["models"][0]["labels"] == ["neg", "pos"]
    assert get(app, "/health").status == get(app, "/ready").status == 200


def test_a_path_is_matched_to_its_end(app, closed):
    for path in ("/health\n", "/health/", "/v1/predict/", "/v1/models//predict", "/v1/models/reviews/predict\n"):
        refused = get(app, path)
        assert refused.status == 404
        assert refused.json["error"]["what"] == f"there is nothing at {path!a}"
    for name in ("a/b", "a\nb", "{name}"):
        refused = post(app, {"texts": ["a"]}, f"/v1/models/{name}/predict")
        assert refused.status == 404
        assert refused.json["error"]["what"] == f"there is no model {name!a}"
    assert get(closed, "/health\n").status == 401


def test_a_client_that_does_not_fetch_its_answer_is_let_go(run):
    lines = []
    app = front({"reviews": run.folder}, log=lines.append, limits=Limits(seconds=0.05))
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [(b"host", b"localhost")]}

    async def unread(message):
        await asyncio.sleep(60)

    asyncio.run(app(scope, None, unread))
    assert (lines[0]["status"], lines[0]["gone"]) == (499, True)


def test_a_token_is_asked_for(closed):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
        refused = post(closed, {"texts": ["a"]}, headers=headers)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert get(closed, "/v1/models", headers=headers).status == 401
        assert get(closed, "/nowhere", headers=headers).status == 401
        assert get(closed, "/metrics", headers=headers).status == 401
    assert post(closed, {"texts": ["a"]}, headers={"authorization": f"Bearer {TOKEN}"}).status == 200
    assert get(closed, "/health").status == get(closed, "/ready").status == get(closed, "/").status == 200
    assert b"reviews" not in get(closed, "/").body


def test_a_name_of_others_does_not_lead_here(app, closed):
    assert get(app, "/v1/models", headers={"host": "evil.example:8000"}).status == 421
    assert get(app, "/v1/models", headers={"host": "127.0.0.1:8000"}).status == 200
    known = {"authorization": f"Bearer {TOKEN}", "host": "models.example"}
    assert get(closed, "/v1/models", headers=known).status == 200


def test_a_full_queue_is_told_at_once(run):
    app = front({"reviews": run.folder}, max_queue=4)
    app.backend.pause = 0.05

    async def many():
        body = json.dumps({"texts": ["good", "bad"]}).encode()
        return await asyncio.gather(*(ask(app, "POST", "/v1/predict", body) for _ in range(6)))

    found = asyncio.run(many())
    assert [one.status for one in found] == [200, 200, 429, 429, 429, 429]
    assert found[-1].headers["retry-after"] == "1"
    assert post(app, {"texts": ["good"] * 9}).status == 200  # larger than the queue, but nothing waits


def test_starting_draining_and_gone(run):
    app = front({"reviews": run.folder}, timeout=0.1)
    app.ready.clear()
    assert get(app, "/ready").status == post(app, {"texts": ["a"]}).status == 503
    app.ready.add("reviews")
    app.draining = True
    assert get(app, "/ready").status == post(app, {"texts": ["a"]}).status == 503
    app.draining = False
    app.backend.away = True
    assert post(app, {"texts": ["a"]}).status == get(app, "/ready").status == 503
    app.ready.add("reviews")
    app.backend.pause = 0.3
    late = post(app, {"texts": ["a"]})
    assert late.status == 503
    assert "within 0.1 s" in late.json["error"]["what"]


def test_logs_and_metrics_say_no_text(run):
    lines = []
    app = front({"reviews": run.folder}, log=lines.append, token=TOKEN)
    secret = "a secret film"
    known = {"authorization": f"Bearer {TOKEN}", "x-request-id": "mine-7"}
    assert post(app, {"texts": [secret, "good"]}, headers=known).headers["x-request-id"] == "mine-7"
    post(app, {"texts": [secret, 7]}, headers={"authorization": f"Bearer {TOKEN}"})
    first = lines[0]
    assert (first["id"], first["model"], first["texts"], first["status"]) == ("mine-7", "reviews", 2, 200)
    assert first["characters"] == len(secret) + 4
    told = get(app, "/metrics", headers=known).body.decode()
    assert 'warmstart_requests_total{model="reviews",status="200"} 1.0' in told
    assert 'warmstart_batch_texts_count{model="reviews"} 1.0' in told
    for text in (json.dumps(lines), told):
        assert "secret" not in text
        assert TOKEN not in text


def test_every_example_of_the_description_works(app):
    found = get(app, "/openapi.json").json
    asked = {path: one["post"] for path, one in found["paths"].items() if "post" in one}
    assert set(asked) == {"/v1/predict", "/v1/models/reviews/predict"}
    for path, one in asked.items():
        example = one["requestBody"]["content"]["application/json"]["example"]
        assert post(app, example, path).status == 200
    for path in set(found["paths"]) - set(asked):
        assert get(app, path).status == 200


def test_answers_are_explained_only_where_that_is_asked_for_and_short(app, run):
    body = {"texts": ["a wonderful film"]}
    assert post(app, body, "/v1/explain").status == 404
    explaining = front({"reviews": run.folder}, explain=True)
    assert {"/v1/explain", "/v1/models/reviews/explain"} <= set(get(explaining, "/openapi.json").json["paths"])
    [answer] = post(explaining, body, "/v1/explain").json["answers"]
    assert answer["label"] == run.predict(body["texts"])[0]["label"]
    assert [word["text"] for word in answer["explanation"]["words"]] == ["a", "wonderful", "film"]
    assert "faithful" in answer["explanation"]["faithfulness"]
    several = post(explaining, {"texts": ["one", "two"]}, "/v1/explain")
    assert (several.status, several.json["error"]["expected"]) == (413, "at most 1 in a request")
    long = post(explaining, {"texts": ["word " * 500]}, "/v1/explain")
    assert (long.status, long.json["error"]["expected"]) == (413, "at most 2,000 in a text")
    assert post(explaining, {"texts": ["word " * 500]}).status == 200


def test_explanations_need_an_engine_that_others_can_use_meanwhile(run):
    from warmstart.cli import serve

    with pytest.raises(RecipeError, match="only --engine torch allows"):
        serve.command([str(run.folder)], explain=True, engine="onnx")


def test_the_page_reads_what_models_say(app):
    model = get(app, "/v1/models").json["models"][0]
    script = get(app, "/").body.decode()
    assert set(re.findall(r"\bmodel\.window\.(\w+)", script)) == {"max_tokens", "method"} <= set(model["window"])
    assert set(re.findall(r"\bmodel\.(\w+)", script)) <= set(model)


@pytest.fixture
def port(app, monkeypatch):
    """The front on a socket, impatient."""
    monkeypatch.setattr("warmstart.deploy.serve.connections.IDLE_SECONDS", 0.5)
    with listening(app) as (port, _):
        yield port


def heard(port, *chunks, pause=0.0):
    """What comes back until the connection is closed."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client, contextlib.suppress(OSError):
        for chunk in chunks:
            client.sendall(chunk)
            time.sleep(pause)
        while part := client.recv(65536):
            found += part
    return found


def test_connections_are_bounded_in_time_and_headers(port):
    head = (
        b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 19\r\n\r\n"
    )
    ask = head + b'{"texts": ["good"]}'
    twice = heard(port, ask + ask)  # a second request sent ahead is answered as well, and then the connection ends
    assert twice.count(b"HTTP/1.1 200 OK") == 2
    assert heard(port) == b""  # who says nothing is not waited for
    started = time.monotonic()
    assert heard(port, *(head[place : place + 1] for place in range(40)), pause=0.1) == b""
    assert time.monotonic() - started < 8
    assert heard(port, head, b'{"tex').startswith(b"HTTP/1.1 408")
    assert heard(port, b"nothing of the kind\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert b" 200 " not in heard(
        port, b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 1_000_000 + b"\r\n\r\n"
    )


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(st.one_of(values, values.map(lambda one: {"texts": one}), values.map(lambda one: {"texts": [one, "good"]})))
def test_any_json_is_answered_or_told_why(app, value):
    found = post(app, json.dumps(value).encode())
    assert found.status in (200, 400, 413)
    assert ("answers" in found.json) == (found.status == 200)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200), st.sampled_from(["GET", "POST", "PUT", "DELETE", "X"]), st.text(max_size=30))
def test_any_bytes_at_any_path_are_told_why(app, body, method, path):
    found = asyncio.run(ask(app, method, f"/{path}", body))
    assert found.status in (200, 400, 404, 405)


def test_names_and_tokens_of_the_command_line(run, tmp_path, monkeypatch):
    assert list(named_runs([f"mine={run.folder}", str(run.folder)])) == ["mine", "reviews"]
    with pytest.raises(RecipeError, match="two models"):
        named_runs([str(run.folder), str(run.folder)])
    with pytest.raises(RecipeError, match="letters"):
        named_runs([f"a b={run.folder}"])
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(RecipeError, match="16 characters"):
        _token(str(tmp_path / "token"))
    monkeypatch.setenv("WARMSTART_SERVE_TOKEN", TOKEN)
    assert _token(None) == TOKEN
    assert [_loopback(one) for one in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [1, 1, 1, 0, 0]
