"""The OpenAPI description of a server, with examples that the models it serves answer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from warmstart.deploy.serve.limits import Limits
from warmstart.deploy.serve.models import Served

ERRORS = {
    "400": "The body is not as expected; the message says where.",
    "401": "No token, or a wrong one.",
    "404": "There is no such model or path.",
    "408": "The body came too slowly.",
    "413": "Too large, or too many texts.",
    "415": "Not application/json, or compressed.",
    "422": "A text that this model cannot answer.",
    "429": "Too many texts wait already; come again after Retry-After seconds.",
    "503": "The model is starting or the server is going; come again after Retry-After seconds.",
}


def describe(models: Sequence[Served], limits: Limits, token: bool) -> dict[str, Any]:
    """The description, as OpenAPI 3.1."""
    paths: dict[str, Any] = {
        "/health": _get("Whether the server is alive."),
        "/ready": _get("Whether every model answers."),
        "/v1/models": _get("The models served."),
        "/metrics": _get("Counters, for Prometheus.", "text/plain"),
    }
    for model in models:
        paths[f"/v1/models/{model.name}/predict"] = {"post": _predict(model, limits)}
    if len(models) == 1:
        paths["/v1/predict"] = {"post": _predict(models[0], limits)}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "warmstart", "version": version("warmstart")},
        "paths": paths,
        "components": {"schemas": {"Error": _error()}},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _predict(model: Served, limits: Limits) -> dict[str, Any]:
    texts = {"type": "array", "minItems": 1, "maxItems": limits.texts, "items": _schema(model.task.example)}
    asked = {"type": "object", "properties": {"texts": texts}, "required": ["texts"], "additionalProperties": False}
    answers = {"type": "array", "items": {"type": "object"}}
    given = {"type": "object", "properties": {"model": {"type": "string"}, "answers": answers}}
    wrong = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": f"Answers of {model.name} ({model.task.name}).",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": asked, "example": {"texts": [model.task.example]}}},
        },
        "responses": {
            "200": {"description": "An answer for each text.", "content": {"application/json": {"schema": given}}},
            **{status: {"description": text, "content": wrong} for status, text in ERRORS.items()},
        },
    }


def _schema(example: Any) -> dict[str, Any]:
    """The shape of a text, as its example has it."""
    if isinstance(example, str):
        return {"type": "string", "minLength": 1}
    if isinstance(example, list):
        return {"type": "array", "items": {"type": "string"}, "minItems": 2}
    return {
        "type": "object",
        "properties": {name: _schema(one) for name, one in example.items()},
        "required": list(example),
    }


def _get(text: str, kind: str = "application/json") -> dict[str, Any]:
    return {"get": {"summary": text, "responses": {"200": {"description": text, "content": {kind: {}}}}}}


def _error() -> dict[str, Any]:
    said = {name: {"type": "string"} for name in ("what", "expected", "where")}
    error = {"type": "object", "properties": {"status": {"type": "integer"}, **said}, "required": ["status", "what"]}
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
