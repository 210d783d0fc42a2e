"""The front: an ASGI application that checks every request, and hands on only what a model can answer."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from warmstart.deploy.serve.backend import Away, Backend
from warmstart.deploy.serve.http import Answer, Gone, Held, Message, Receive, Request, Send, respond
from warmstart.deploy.serve.limits import Limits, read_texts
from warmstart.deploy.serve.metrics import Metrics
from warmstart.deploy.serve.models import Served
from warmstart.deploy.serve.openapi import describe
from warmstart.deploy.serve.page import page
from warmstart.deploy.serve.refusals import Refused, busy
from warmstart.errors import nearest

OPEN = ("/health", "/ready", "/")
"""What needs no token: whether there is a server, which balancers ask, and the page, which holds nothing itself."""
LOOPBACK = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)
Log = Callable[[Mapping[str, Any]], None]
Entry = dict[str, Any]
Route = Callable[[Request, Entry], Awaitable[Answer]]


class App:
    """Answers HTTP for models.

    Args:
        queue: Texts of a model that may wait at once; a request beyond them is told to come again.
        seconds: Within which a request is answered, or told to come again.
        token: What a client must show; None for no token, and then only requests to this machine's own names.

    Attributes:
        models: Those that are served, by name; one may be put in the place of another at any time.
        ready: The names of models that answer.
        draining: No request is taken any more.
        under_way: Texts that are being answered, by model.
    """

    def __init__(
        self,
        models: dict[str, Served],
        backend: Backend,
        limits: Limits | None = None,
        queue: int = 256,
        seconds: float = 60.0,
        token: str | None = None,
        log: Log | None = None,
    ) -> None:
        self.models, self.backend, self.limits = models, backend, limits or Limits()
        self.queue, self.seconds = queue, seconds
        self.token = None if token is None else token.encode()
        self.log = log or to_stderr
        self.metrics = Metrics()
        self.ready: set[str] = set()
        self.draining = False
        self.under_way: dict[str, int] = dict.fromkeys(models, 0)
        self.held = Held()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; whatever it holds, it is answered."""
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        request = Request(scope, receive, self.limits, self.held)
        entry: Entry = {"id": request.id, "model": "", "texts": 0, "characters": 0}
        try:
            answer = await self._answered(request, entry)
            await respond(answer, request, send, self.limits.seconds)
        except (Gone, TimeoutError):
            entry["gone"] = True
            answer = Answer(499, b"")
        finally:
            request.done()
        seconds = time.perf_counter() - started
        self.metrics.done(entry["model"], answer.status, seconds)
        self.log({**entry, "status": answer.status, "ms": round(1000 * seconds, 2), "queue": self._waiting(entry)})

    async def _answered(self, request: Request, entry: Entry) -> Answer:
        try:
            return await self._route(request, entry)
        except Refused as error:
            refused = error
        except Gone:
            raise
        except Exception as error:  # A fault of ours; its text may quote a client's, so only its kind is logged.
            entry["fault"] = type(error).__name__
            refused = Refused(500, "a fault of warmstart's", "please report it, with the id of the request")
        kept = not refused.close and await request.discard()
        body = json.dumps(refused.as_json()).encode()
        return Answer(refused.status, body, headers=refused.headers, close=not kept)

    async def _route(self, request: Request, entry: Entry) -> Answer:
        self._check_host(request)
        path = request.path
        if self.token is not None and path not in OPEN:
            self._check_token(request)
        methods = self._methods(path)
        if not methods:
            known = nearest(path, self._paths())[:200]
            raise Refused(404, f"there is nothing at {ascii(path)[:80]}", known, "path")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            allowed = ", ".join(methods)
            raise Refused(405, f"found {request.method[:20]}", allowed, "method", {"allow": allowed})
        return await methods[method](request, entry)

    def _methods(self, path: str) -> dict[str, Route]:
        """What can be done at a path, by method."""
        fixed: dict[str, dict[str, Route]] = {
            "/": {"GET": self._page},
            "/health": {"GET": self._health},
            "/ready": {"GET": self._ready},
            "/metrics": {"GET": self._metrics},
            "/openapi.json": {"GET": self._openapi},
            "/v1/models": {"GET": self._list},
            "/v1/predict": {"POST": self._predict_only},
        }
        if path in fixed:
            return fixed[path]
        start, end = "/v1/models/", "/predict"
        if path.startswith(start) and path.endswith(end) and len(path) > len(start) + len(end):
            name = path[len(start) : -len(end)]
            return {"POST": lambda request, entry: self._predict(name, request, entry)}
        return {}

    def _paths(self) -> list[str]:
        own = [f"/v1/models/{name}/predict" for name in self.models]
        return ["/", "/health", "/ready", "/metrics", "/openapi.json", "/v1/models", "/v1/predict", *own]

    def _check_host(self, request: Request) -> None:
        """Without a token, refuse names of others that lead here: a page in a browser may be behind such a name."""
        host = request.headers.get(b"host", b"")
        if self.token is None and not LOOPBACK.fullmatch(host):
            found = ascii(host.decode("latin-1"))[:80]
            raise Refused(421, f"found the host {found}", "localhost or 127.0.0.1; or a server with a token", "headers")

    def _check_token(self, request: Request) -> None:
        given = request.headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + (self.token or b"")):
            headers = {"www-authenticate": "Bearer"}
            raise Refused(401, "no token, or a wrong one", "Authorization: Bearer TOKEN", "headers", headers)

    async def _health(self, request: Request, entry: Entry) -> Answer:
        return Answer.of({"status": "alive"})

    async def _ready(self, request: Request, entry: Entry) -> Answer:
        if self.draining or self.ready != set(self.models):
            raise busy("draining" if self.draining else "starting")
        return Answer.of({"status": "ready"})

    async def _metrics(self, request: Request, entry: Entry) -> Answer:
        for name, count in self.under_way.items():
            self.metrics.waiting.labels(name).set(count)
        return Answer(200, self.metrics.text(), "text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, request: Request, entry: Entry) -> Answer:
        return Answer.of(describe(list(self.models.values()), self.limits, self.token is not None))

    async def _list(self, request: Request, entry: Entry) -> Answer:
        return Answer.of(
            {"models": [{**one.about(), "ready": name in self.ready} for name, one in self.models.items()]}
        )

    async def _page(self, request: Request, entry: Entry) -> Answer:
        html, headers = page()
        return Answer(200, html, "text/html; charset=utf-8", dict(headers))

    async def _predict_only(self, request: Request, entry: Entry) -> Answer:
        if len(self.models) > 1:
            known = ", ".join(f"/v1/models/{name}/predict" for name in self.models)
            raise Refused(404, f"there are {len(self.models)} models here", known, "path")
        return await self._predict(next(iter(self.models)), request, entry)

    async def _predict(self, name: str, request: Request, entry: Entry) -> Answer:
        if name not in self.models:
            raise Refused(404, f"there is no model {ascii(name)[:80]}", nearest(name[:80], self.models), "path")
        entry["model"] = name
        texts = read_texts(await request.read(), self.limits)
        model = self.models[name]
        rows = model.rows(texts)
        entry["texts"] = len(rows)
        entry["characters"] = sum(len(one) for row in rows for one in row.values() if isinstance(one, str))
        if self.draining or name not in self.ready:
            raise busy(f"{name} is " + ("draining" if self.draining else "starting"))
        if self.under_way[name] and self.under_way[name] + len(rows) > self.queue:
            raise busy(f"{name} has {self.under_way[name]} texts to answer already", 429)
        self.under_way[name] += len(rows)
        try:
            return await self._ask(model, rows)
        finally:
            self.under_way[name] -= len(rows)

    async def _ask(self, model: Served, rows: list[Any]) -> Answer:
        try:
            async with asyncio.timeout(self.seconds):
                answered = await self.backend.answer(model, rows)
        except Away as error:
            if self.models[model.name] is model:
                self.ready.discard(model.name)
            raise busy(str(error)) from None
        except TimeoutError:
            raise busy(f"no answer within {self.seconds:g} s") from None
        self.metrics.answered(model.name, answered)
        for index, found in enumerate(answered.found):
            if isinstance(found, str):
                raise model.refusal(index, found, 422)
        try:
            return Answer.of({"model": model.name, "version": model.seal[:12], "answers": answered.found})
        except ValueError:
            raise model.refusal(0, "the model gives no number", 422) from None

    def _waiting(self, entry: Entry) -> int:
        return self.under_way.get(entry["model"], 0)


def to_stderr(entry: Mapping[str, Any]) -> None:
    """One line of JSON; never a text or a token."""
    told = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}
    sys.stderr.write(json.dumps(told) + "\n")
