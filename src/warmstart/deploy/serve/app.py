"""The ASGI application: it checks every request, and hands to a model only what the model can answer."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from warmstart.deploy.serve.backend import Backend, ModelUnavailable
from warmstart.deploy.serve.corrections import FORM_TYPE, form_refusal
from warmstart.deploy.serve.demo_page import demo_page
from warmstart.deploy.serve.exchange import CLIENT_CLOSED_REQUEST, Exchange
from warmstart.deploy.serve.limits import Limits, read_texts
from warmstart.deploy.serve.openapi import describe_server
from warmstart.deploy.serve.refusals import Refusal, retry_later
from warmstart.deploy.serve.request_body import BodyMemory
from warmstart.deploy.serve.served_models import InputRow, ServedModel
from warmstart.deploy.serve.server_metrics import ServerMetrics
from warmstart.errors import nearest
from warmstart.storage.json_files import Json

OPEN_PATHS = ("/health", "/ready", "/")
"""Paths that need no token: load balancers ask whether there is a server, and the page itself holds nothing."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_LOOPBACK = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)
Log = Callable[[Mapping[str, object]], None]


class ModelNameConvertor(Convertor[str]):
    """Any name in a path, slashes and newlines included, so that a wrong one is refused as a name."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("model", ModelNameConvertor())


@dataclass(frozen=True)
class ServingSettings:
    """How requests are taken.

    Attributes:
        limits: How much a request may ask for.
        max_queue: Texts of a model that may wait at once; a request beyond them is refused with 429.
        timeout: Seconds within which a request is answered, or refused with 503.
        token: The token that a client must send; without one, only requests to this machine's own names are answered.
        explain: Whether answers are explained to those who ask for it.
    """

    limits: Limits = field(default_factory=Limits)
    max_queue: int = 256
    timeout: float = 60.0
    token: str | None = None
    explain: bool = False


class ServingApp:
    """Answers HTTP requests for models.

    Routes and responses are Starlette's. Its middleware is not used: checks come before routing, refusals decide
    whether the connection is kept, and every request is logged and counted, whatever happens to it.

    Attributes:
        models: The models, by name; another state of a model can take its place at any time.
        ready: Names of the models that answer.
        draining: Whether no more requests are taken.
        in_progress: Number of texts being answered, by model.
    """

    def __init__(
        self,
        models: dict[str, ServedModel],
        backend: Backend,
        settings: ServingSettings | None = None,
        log: Log | None = None,
    ) -> None:
        self.models, self.backend = models, backend
        self.settings = settings or ServingSettings()
        self.log = log or log_to_stderr
        self.metrics = ServerMetrics()
        self.ready: set[str] = set()
        self.draining = False
        self.in_progress: dict[str, int] = dict.fromkeys(models, 0)
        self.routes = [
            Route("/", self.page, include_in_schema=False),
            Route("/health", self.health),
            Route("/ready", self.readiness),
            Route("/v1/models", self.list_models),
            Route("/metrics", self.scrape),
            Route("/openapi.json", self.openapi, include_in_schema=False),
            Route("/v1/models/{name:model}/predict", self.predict, methods=["POST"]),
            Route("/v1/predict", self.predict_single, methods=["POST"]),
        ]
        if self.settings.explain:
            self.routes += [
                Route("/v1/models/{name:model}/explain", self.explain, methods=["POST"]),
                Route("/v1/explain", self.explain_single, methods=["POST"]),
            ]
        self._router = Router(self.routes, redirect_slashes=False)
        self._body_memory = BodyMemory()
        self._described: tuple[tuple[ServedModel, ...], bytes] | None = None
        """The models that the OpenAPI description was made for, and the description."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever it holds, it is answered."""
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        scope["app"] = self  # as in a `Starlette`: its routes then raise their 404 and 405 instead of sending them
        exchange = Exchange(scope, receive, send, self.settings.limits, self._body_memory)
        try:
            await self._answer(exchange)
        except ClientDisconnect:
            exchange.entry.gone = True
            exchange.status = CLIENT_CLOSED_REQUEST
        finally:
            exchange.body.release()
        seconds = time.perf_counter() - started
        model = exchange.entry.model
        self.metrics.count_request(model, exchange.status, seconds)
        outcome = {"status": exchange.status, "ms": round(1000 * seconds, 2), "queue": self.in_progress.get(model, 0)}
        self.log({**exchange.entry.as_json(), **outcome})

    async def _answer(self, exchange: Exchange) -> None:
        try:
            exchange.check_framing()
            self._check_access(exchange)
            await self._router(exchange.scope, exchange.receive, exchange.send)
            return
        except ClientDisconnect:
            raise
        except Refusal as error:
            refusal = error
        except HTTPException as error:
            refusal = self._routing_refusal(exchange, error)
        except Exception as error:
            if exchange.status:  # the response has begun, so there is nothing more to say
                raise
            exchange.entry.fault = type(error).__name__
            refusal = Refusal(500, "internal error in warmstart", "please report it, with the id of the request")
        await exchange.refuse(refusal)

    def _check_access(self, exchange: Exchange) -> None:
        """Refuse a request by its host or its token, whether or not there is anything at its path."""
        token = self.settings.token
        if token is None:
            # Others may have names that lead to this machine, and a page in a browser may come from such a name.
            host = exchange.headers.get(b"host", b"")
            if not _LOOPBACK.fullmatch(host):
                what = f"found the host {ascii(host.decode('latin-1'))[:80]}"
                raise Refusal(421, what, "localhost or 127.0.0.1; or a server with a token", "headers")
        elif exchange.path not in OPEN_PATHS:
            authorization = exchange.headers.get(b"authorization", b"")
            if not hmac.compare_digest(authorization, b"Bearer " + token.encode()):
                headers = {"www-authenticate": "Bearer"}
                raise Refusal(401, "missing or wrong token", "Authorization: Bearer TOKEN", "headers", headers)
        if exchange.path.endswith("\n"):  # a route's pattern ends in `$`, which also matches before a newline
            raise HTTPException(404)

    def _routing_refusal(self, exchange: Exchange, error: HTTPException) -> Refusal:
        """The refusal of a path or method that has no route."""
        if error.status_code == 405:
            methods = set((error.headers or {})["Allow"].split(", ")) - {"HEAD"}
            allowed = ", ".join(sorted(methods))
            return Refusal(405, f"found {exchange.method[:20]}", allowed, "method", {"allow": allowed})
        formats = [route.path_format for route in self.routes]
        paths = {path.format(name=name) for path in formats for name in self.models}
        known = nearest(exchange.path, paths)[:200]
        return Refusal(404, f"there is nothing at {ascii(exchange.path)[:80]}", known, "path")

    async def health(self, request: Request) -> JSONResponse:
        """Whether the server is alive."""
        return JSONResponse({"status": "alive"})

    async def readiness(self, request: Request) -> JSONResponse:
        """Whether every model answers."""
        if self.draining or self.ready != set(self.models):
            raise retry_later("draining" if self.draining else "starting")
        return JSONResponse({"status": "ready"})

    async def list_models(self, request: Request) -> JSONResponse:
        """The models served."""
        models = [{**model.describe(), "ready": name in self.ready} for name, model in self.models.items()]
        return JSONResponse({"models": models})

    async def scrape(self, request: Request) -> PlainTextResponse:
        """Counters, for Prometheus."""
        for name, count in self.in_progress.items():
            self.metrics.queue.labels(name).set(count)
        return PlainTextResponse(self.metrics.text(), media_type=PROMETHEUS)

    async def openapi(self, request: Request) -> Response:
        """The description of the server, as OpenAPI."""
        models, settings = tuple(self.models.values()), self.settings
        if self._described is None or self._described[0] != models:  # making it takes longer than answering a text
            description = describe_server(self.routes, models, settings.limits, settings.token is not None)
            self._described = models, bytes(JSONResponse(description).body)
        return Response(self._described[1], media_type=JSONResponse.media_type)

    async def page(self, request: Request) -> HTMLResponse:
        """The page for trying models."""
        return demo_page()

    async def predict(self, request: Request) -> JSONResponse:
        """Answers of one of several models."""
        return await self._predict(request.path_params["name"], request.state.exchange)

    async def predict_single(self, request: Request) -> JSONResponse:
        """Answers, where there is one model."""
        return await self._predict(self._single("predict"), request.state.exchange)

    async def explain(self, request: Request) -> JSONResponse:
        """An answer of one of several models, with the words behind it."""
        return await self._predict(request.path_params["name"], request.state.exchange, explain=True)

    async def explain_single(self, request: Request) -> JSONResponse:
        """An answer with the words behind it, where there is one model."""
        return await self._predict(self._single("explain"), request.state.exchange, explain=True)

    def _single(self, verb: str) -> str:
        """The name of the only model."""
        if len(self.models) > 1:
            known = ", ".join(f"/v1/models/{name}/{verb}" for name in self.models)
            raise Refusal(404, f"there are {len(self.models)} models here", known, "path")
        return next(iter(self.models))

    async def _predict(self, name: str, exchange: Exchange, explain: bool = False) -> JSONResponse:
        if name not in self.models:
            raise Refusal(404, f"there is no model {ascii(name)[:80]}", nearest(name[:80], self.models), "path")
        exchange.entry.model = name
        limits = self.settings.limits
        texts = await self._read_texts(exchange, limits.for_explaining if explain else limits)
        model = self.models[name]
        rows = model.rows(texts)
        exchange.entry.texts = len(rows)
        exchange.entry.characters = sum(len(value) for row in rows for value in row.values() if isinstance(value, str))
        if self.draining or name not in self.ready:
            raise retry_later(f"{name} is " + ("draining" if self.draining else "starting"))
        waiting = self.in_progress[name]
        if waiting and waiting + len(rows) > self.settings.max_queue:
            raise retry_later(f"{name} already has {waiting} texts to answer", 429)
        self.in_progress[name] += len(rows)
        try:
            return await self._compute(model, rows, explain)
        finally:
            self.in_progress[name] -= len(rows)

    async def _read_texts(self, exchange: Exchange, limits: Limits) -> list[Json]:
        body = await exchange.body.read()
        if exchange.body.media_type == FORM_TYPE:
            host = exchange.headers.get(b"host", b"")
            raise form_refusal(body, exchange.path, host, self.settings.token is not None)
        return read_texts(body, limits)

    async def _compute(self, model: ServedModel, rows: list[InputRow], explain: bool) -> JSONResponse:
        backend = self.backend
        try:
            async with asyncio.timeout(self.settings.timeout):
                reply = await (backend.explain(model, rows[0]) if explain else backend.answer(model, rows))
        except ModelUnavailable as error:
            if self.models[model.name] is model:
                self.ready.discard(model.name)
            raise retry_later(str(error)) from None
        except TimeoutError:
            raise retry_later(f"no answer within {self.settings.timeout:g} s") from None
        self.metrics.count_reply(model.name, reply)
        for index, outcome in enumerate(reply.outcomes):
            if isinstance(outcome, str):
                raise model.refusal(index, outcome, 422)
        try:
            return JSONResponse({"model": model.name, "version": model.version, "answers": reply.outcomes})
        except ValueError:
            raise model.refusal(0, "the model returned NaN or infinity", 422) from None


def log_to_stderr(entry: Mapping[str, object]) -> None:
    """Write an entry of the log as one line of JSON."""
    sys.stderr.write(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}) + "\n")
