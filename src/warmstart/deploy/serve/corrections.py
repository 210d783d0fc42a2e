"""The request that was probably meant, where a body has the form that other servers take."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl

from warmstart.deploy.serve.refusals import Refusal
from warmstart.storage.json_files import Json, JsonObject, parse_json

SYNONYMS = (
    "text",
    "input",
    "inputs",
    "instances",
    "sentence",
    "sentences",
    "sequences",
    "documents",
    "queries",
    "data",
)
"""What other servers call the texts of a request."""
FORM_TYPE = b"application/x-www-form-urlencoded"
"""What `curl -d` says of its body where no header says otherwise."""
SAMPLE = "a text"
MAX_SENT = 300
"""Characters of a body that is proposed."""
_HOST = re.compile(rb"[A-Za-z0-9.-]{1,100}(:\d{1,5})?|\[[0-9a-fA-F:.]{2,50}\](:\d{1,5})?")


def intended_texts(value: Json) -> list[Json] | None:
    """The texts in a JSON body of another form; None where it does not show which they are."""
    if isinstance(value, dict):
        names = [name for name in value if name.lower() in (*SYNONYMS, "texts")]
        return intended_texts(value[names[0]]) if len(names) == 1 else None
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(isinstance(text, str | list | dict) for text in value):
        return value
    return None


def proposed_body(texts: list[Json]) -> JsonObject:
    """A body with these texts, as far as they are short enough to be shown."""
    body: JsonObject = {"texts": texts}
    if len(json.dumps(body)) <= MAX_SENT:
        return body
    first = texts[0]
    return {"texts": [first[:80] + "…" if isinstance(first, str) else SAMPLE]}


def form_refusal(body: bytes, path: str, host: bytes, needs_token: bool) -> Refusal:
    """The refusal of a form, with the command that sends the same text as JSON."""
    place = host.decode() if _HOST.fullmatch(host) else "127.0.0.1:8000"
    headers = ["content-type: application/json", *(["authorization: Bearer TOKEN"] if needs_token else [])]
    given = "".join(f" -H '{header}'" for header in headers)
    command = f"curl http://{place}{path}{given} -d {_quoted(proposed_body(_form_texts(body)))}"
    what = "found a form, which is what `curl -d` sends without a header"
    return Refusal(415, what, "application/json", "headers", more={"curl": command})


def _form_texts(body: bytes) -> list[Json]:
    """The texts of a form: JSON that lacks its header, the field that holds them, or all of it."""
    try:
        text = body.decode("utf-8").strip()
    except UnicodeDecodeError:
        return [SAMPLE]
    try:
        return intended_texts(parse_json(text)) or [SAMPLE]
    except (ValueError, RecursionError):
        pass
    try:
        fields: JsonObject = dict(parse_qsl(text, max_num_fields=20))
    except ValueError:
        fields = {}
    return intended_texts(fields) or [text or SAMPLE]


def _quoted(body: JsonObject) -> str:
    r"""A body as a word of bash or zsh that means the same as shown and as JSON escapes it.

    A client sees the command inside of JSON, where each `"` is `\"`; between `$'` and `'` both are a `"`. A text that
    would need more escapes than that gives way to a sample.
    """
    word = json.dumps(body, ensure_ascii=False)
    if "\\" in word or not word.isprintable():
        word = json.dumps({"texts": [SAMPLE]})
    return "$'" + word.replace("'", "\\u0027") + "'"
