"""The tokenizer of a model from any source: the library's own classes, no other files, no rule that lets texts grow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.models.japanese_tokenizers import OPTIONS, check_japanese
from warmstart.models.security.config import check_keys, check_tokenizer_class
from warmstart.storage.json_files import MEGABYTE, JsonObject, read_object

MAX_BYTES = 64 * MEGABYTE
MAX_CONFIG_BYTES = 8 * MEGABYTE
MAX_PATTERN = 4096
MAX_GROWTH = 256
"""How many times longer all replacements together may make a text."""
MAX_ADDED = 64
"""How many characters or tokens a rule may put around a text."""
MAX_ADDED_TOKENS = 10_000
"""How many tokens a folder may add to its vocabulary: the time to open them grows faster than their number."""
MAX_PADDED = 1 << 20
IGNORED = frozenset({"special_tokens_map_file"})
"""Keys of old folders with the former path of a file, which the library does not read."""


def check_tokenizer_config(path: Path) -> None:
    """Refuse a tokenizer of a class that is not the library's own, or that names files."""
    values = read_object(path, ModelError, MAX_CONFIG_BYTES)
    check_keys({key: value for key, value in values.items() if key not in OPTIONS}, path)
    check_japanese(values, path)
    check_tokenizer_class(values, path)
    for key in ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"):
        _check_added(path, key, values.get(key))
    for key, value in values.items():
        if key.endswith("_file") and value is not None and key not in IGNORED:
            raise ModelError(
                f"{path}: {key}: found {str(value)[:80]!r}, expected no file named here: the folder's own are found "
                "by their names; remove the key"
            )


def check_tokenizer(path: Path) -> None:
    """Refuse a `tokenizer.json` whose patterns take exponential time, or whose rules make a text endless."""
    values = read_object(path, ModelError, MAX_BYTES)
    _check_added(path, "added_tokens", values.get("added_tokens"))
    growth = 1.0
    for key in ("normalizer", "pre_tokenizer", "post_processor"):
        for name, node in _objects(values.get(key), key):
            _check_pattern(path, name, node.get("Regex"))
            growth *= _growth(node)
            if growth > MAX_GROWTH:
                raise ModelError(
                    f"{path}: {name}: found replacements that make a text more than {MAX_GROWTH} times longer"
                )
            for added in ("prepend", "single", "pair"):
                if len(node.get(added) or ()) > MAX_ADDED:
                    raise ModelError(f"{path}: {name}.{added}: expected at most {MAX_ADDED} to be put around a text")
    for key in ("padding", "truncation"):
        for name, node in _objects(values.get(key), key):
            for inner, value in node.items():
                if type(value) is int and value > MAX_PADDED:
                    raise ModelError(f"{path}: {name}.{inner}: found {value:,}, expected at most {MAX_PADDED:,}")


def check_added_tokens(path: Path) -> None:
    """Refuse an `added_tokens.json` with more tokens than any tokenizer adds."""
    _check_added(path, "added tokens", read_object(path, ModelError, MAX_BYTES))


def _check_added(path: Path, key: str, tokens: object) -> None:
    if isinstance(tokens, dict | list) and len(tokens) > MAX_ADDED_TOKENS:
        raise ModelError(
            f"{path}: {key}: found {len(tokens):,}, expected at most {MAX_ADDED_TOKENS:,} added tokens; more of them "
            "belong in the vocabulary, since each is searched for in every text"
        )


def backtracking_risk(pattern: str) -> str | None:
    """What in a pattern can take exponential time, or None.

    That is a repeated group with a repetition or an alternative inside, `(a+)+` or `(a|a)*`, and a recursive pattern.
    """
    if re.search(r"\\[gk][<']|\\[1-9]|\(\?[&PR]", pattern):
        return "a call or a reference to a group"
    # Character classes and escapes contain no repetition.
    plain = re.sub(r"\\[pP]\{[^}]*\}|\\.", "x", pattern)
    plain = re.sub(r"\[\^?\]?(?:[^\[\]]|\[:?[^\[\]]*:?\])*\]", "x", plain)
    stack: list[bool] = []
    for index, character in enumerate(plain):
        rest = plain[index + 1 :]
        if character == "(":
            stack.append(False)
        elif character == ")" and stack:
            risky = stack.pop()
            repeated = re.match(r"[*+]|\{\d*,\}|\{\d*,?\d{3,}\}", rest)
            if risky and repeated:
                return "a repeated group with a repetition or an alternative inside"
            if stack:
                stack[-1] = stack[-1] or risky or bool(repeated)
        elif stack and (character in "*+|" or re.match(r"\{\d*,\d*\}", plain[index:])):
            stack[-1] = True
    return None


def _check_pattern(path: Path, name: str, pattern: object) -> None:
    if not isinstance(pattern, str):
        return
    if len(pattern) > MAX_PATTERN:
        raise ModelError(f"{path}: {name}.Regex: found {len(pattern):,} characters, expected at most {MAX_PATTERN:,}")
    if reason := backtracking_risk(pattern):
        raise ModelError(
            f"{path}: {name}.Regex: found {pattern[:80]!r}, with {reason}, which can take exponential time; "
            "expected a pattern without nested repetition"
        )


def _growth(node: JsonObject) -> float:
    """How many times longer a replacement can make a text."""
    if node.get("type") != "Replace" or not isinstance(node.get("content"), str):
        return 1.0
    pattern = node.get("pattern")
    text = pattern.get("String") if isinstance(pattern, dict) else None
    # The match of a regular expression may be empty; the replacement is then inserted before every character.
    shortest = len(text) if isinstance(text, str) and text else 0.5
    return max(1.0, len(node["content"]) / shortest)


def _objects(value: object, name: str) -> Iterator[tuple[str, JsonObject]]:
    """Every JSON object below a value, with its dotted name."""
    pending = [(name, value)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict):
            yield name, value
            pending += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            pending += [(f"{name}[{number}]", inner) for number, inner in enumerate(value)]
