"""A server without a cluster: predictors in this process behind it, and requests that need no socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.deploy.serve.app import Log, ServingApp, ServingSettings
from warmstart.deploy.serve.backend import BackendReply, ModelUnavailable
from warmstart.deploy.serve.served_models import ServedModel
from warmstart.inference.predictor import Predictor
from warmstart.inspection.explanations import explain

JSON = {"content-type": "application/json"}


class InProcess:
    """Predictors of this process; `away` and `pause` play a replica that died and one that is slow."""

    def __init__(self) -> None:
        self.predictors: dict[str, Predictor] = {}
        self.away = False
        self.pause = 0.0

    async def open(self, model: ServedModel) -> None:
        self.predictors[model.seal] = Predictor.load(model.path)

    async def answer(self, model: ServedModel, rows: Any) -> BackendReply:
        await asyncio.sleep(self.pause)
        if self.away:
            raise ModelUnavailable("gone")
        return BackendReply(list(self.predictors[model.seal].stream(rows)), [len(rows)])

    async def explain(self, model: ServedModel, row: Any) -> BackendReply:
        return BackendReply([explain(self.predictors[model.seal], row, "occlusion").as_answer()])

    async def close(self, model: ServedModel) -> None:
        del self.predictors[model.seal]


def front(paths: dict[str, Path], log: Log = lambda entry: None, **settings: Any) -> ServingApp:
    """An application that is ready to answer."""
    models = {name: ServedModel.open(name, path) for name, path in paths.items()}
    backend = InProcess()
    app = ServingApp(models, backend, ServingSettings(**settings), log)
    for model in models.values():
        asyncio.run(backend.open(model))
        app.ready.add(model.name)
    return app


@contextmanager
def listening(app: ServingApp) -> Iterator[tuple[int, Any]]:
    """The application behind a socket: its port, and the uvicorn in between."""
    import uvicorn

    from warmstart.deploy.serve.connections import listen
    from warmstart.deploy.serve.server import server_config

    server, sock = uvicorn.Server(server_config(app)), listen("127.0.0.1", 0)
    thread = threading.Thread(target=asyncio.run, args=(server.serve([sock]),), daemon=True)
    thread.start()
    try:
        yield sock.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join()


class Reply:
    """A response of the application."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: ServingApp,
    method: str,
    path: str,
    body: bytes | list[bytes] = b"",
    headers: dict[str, str] | None = None,
    pause: float = 0.0,
) -> Reply:
    """Send one request; a body in several chunks is sent with a pause before each."""
    chunks = [body] if isinstance(body, bytes) else list(body)
    given = {"host": "localhost", **JSON, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause)
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, end = sent
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], answered, end["body"])


def post(app: ServingApp, body: Any, path: str = "/v1/predict", **more: Any) -> Reply:
    """A request for answers."""
    given = body if isinstance(body, bytes | list) else json.dumps(body).encode()
    return asyncio.run(ask(app, "POST", path, given, **more))


def get(app: ServingApp, path: str, **more: Any) -> Reply:
    return asyncio.run(ask(app, "GET", path, **more))
