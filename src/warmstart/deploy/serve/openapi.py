"""The OpenAPI description of a server, from its routes, with examples that the models answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from inspect import getdoc
from typing import get_type_hints

from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.schemas import BaseSchemaGenerator

from warmstart.deploy.serve.limits import Limits
from warmstart.deploy.serve.served_models import ServedModel
from warmstart.storage.json_files import Json

Schema = dict[str, object]

ERRORS = {
    "400": "The body is not as expected; the message says where.",
    "401": "Missing or wrong token.",
    "404": "There is no such model or path.",
    "408": "The body arrived too slowly.",
    "413": "Too large, or too many texts.",
    "415": "Not application/json, or compressed.",
    "422": "A text that this model cannot answer.",
    "429": "Too many texts are waiting; try again after Retry-After seconds.",
    "503": "The model is starting or the server is stopping; try again after Retry-After seconds.",
}


def describe_server(
    routes: Sequence[BaseRoute], models: Sequence[ServedModel], limits: Limits, needs_token: bool
) -> Schema:
    """The description, as OpenAPI 3.1.

    What a GET returns is said by the docstring and the return type of its endpoint. A POST is a prediction or its
    explanation: a path with `{name}` is there for every model, and one without for a single model.
    """
    paths: dict[str, Schema] = {}
    for path, method, endpoint in BaseSchemaGenerator().get_endpoints(list(routes)):
        if method == "get":
            paths[path] = {method: _get(endpoint)}
        elif "{name}" in path or len(models) == 1:
            explain = path.endswith("/explain")
            own = limits.for_explaining if explain else limits
            paths.update({path.format(name=model.name): {method: _predict(model, own, explain)} for model in models})
    components: Schema = {"schemas": {"Error": _error()}}
    description: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "warmstart", "version": version("warmstart")},
        "paths": paths,
        "components": components,
    }
    if needs_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}]
    return description


def _get(endpoint: Callable[..., object]) -> Schema:
    summary = (getdoc(endpoint) or "").partition("\n")[0]
    response: type[Response] = get_type_hints(endpoint)["return"]
    content: Schema = {str(response.media_type): {}}
    return {"summary": summary, "responses": {"200": {"description": summary, "content": content}}}


def _predict(model: ServedModel, limits: Limits, explain: bool) -> Schema:
    texts = {"type": "array", "minItems": 1, "maxItems": limits.texts, "items": _text(model.task.example)}
    request = {"type": "object", "properties": {"texts": texts}, "required": ["texts"], "additionalProperties": False}
    answers = {"type": "array", "items": {"type": "object"}}
    reply = {"type": "object", "properties": {"model": {"type": "string"}, "answers": answers}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": f"Answers of {model.name} ({model.task.name}){', with the words behind them' if explain else ''}.",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": request, "example": {"texts": [model.task.example]}}},
        },
        "responses": {
            "200": {"description": "An answer for each text.", "content": {"application/json": {"schema": reply}}},
            **{status: {"description": text, "content": error} for status, text in ERRORS.items()},
        },
    }


def _text(example: Json) -> Schema:
    """The schema of a text, from its example."""
    if isinstance(example, dict):
        properties = {name: _text(value) for name, value in example.items()}
        return {"type": "object", "properties": properties, "required": list(example)}
    if isinstance(example, list):
        return {"type": "array", "items": {"type": "string"}, "minItems": 2}
    return {"type": "string", "minLength": 1}


def _error() -> Schema:
    message = {name: {"type": "string"} for name in ("what", "expected", "where", "curl")}
    properties = {"status": {"type": "integer"}, **message, "send": {"type": "object"}}
    error = {"type": "object", "properties": properties, "required": ["status", "what"]}
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
