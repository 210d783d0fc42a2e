"""The tokenizer of a model from anywhere: the library's own classes, no other files, no rule that swells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warmstart.errors import ModelError
from warmstart.models.japanese_tokenizers import OPTIONS, check_japanese
from warmstart.models.security.config import check_keys, check_tokenizer_class
from warmstart.storage.json_files import MEGABYTE, read_object

LARGEST = 64 * MEGABYTE
LARGEST_CONFIG = 8 * MEGABYTE
LONGEST_PATTERN = 4096
MOST_GROWTH = 256
"""How many times longer all replacements together may make a text."""
LONGEST_ADDED = 64
"""How many characters or tokens a rule may put around a text."""
LONGEST_PADDED = 1 << 20
NOT_FOLLOWED = frozenset({"special_tokens_map_file"})
"""Old folders tell where a file once was; the library has its own place for it and does not look there."""


def check_tokenizer_config(path: Path) -> None:
    """Refuse a tokenizer of a class that is not the library's own, or that names files."""
    values = read_object(path, ModelError, LARGEST_CONFIG)
    check_keys({key: value for key, value in values.items() if key not in OPTIONS}, path)
    check_japanese(values, path)
    check_tokenizer_class(values, path)
    for key, value in values.items():
        if key.endswith("_file") and value is not None and key not in NOT_FOLLOWED:
            raise ModelError(
                f"{path}: {key}: found {str(value)[:80]!r}, expected no file named here: the folder's own are found "
                "by their names; remove the key"
            )


def check_tokenizer(path: Path) -> None:
    """Refuse a `tokenizer.json` whose patterns could take for ever, or whose rules could make a text endless."""
    values = read_object(path, ModelError, LARGEST)
    growth = 1.0
    for key in ("normalizer", "pre_tokenizer", "post_processor"):
        for name, node in _objects(values.get(key), key):
            _check_pattern(path, name, node.get("Regex"))
            growth *= _growth(node)
            if growth > MOST_GROWTH:
                raise ModelError(
                    f"{path}: {name}: found replacements that make a text more than {MOST_GROWTH} times longer"
                )
            for added in ("prepend", "single", "pair"):
                if len(node.get(added) or ()) > LONGEST_ADDED:
                    raise ModelError(
                        f"{path}: {name}.{added}: expected at most {LONGEST_ADDED} to be put around a text"
                    )
    for key in ("padding", "truncation"):
        for name, node in _objects(values.get(key), key):
            for inner, value in node.items():
                if type(value) is int and value > LONGEST_PADDED:
                    raise ModelError(f"{path}: {name}.{inner}: found {value:,}, expected at most {LONGEST_PADDED:,}")


def endless(pattern: str) -> str | None:
    """What in a pattern can take time that doubles with each character, or None.

    That is a repeated group which itself repeats or chooses, `(a+)+` or `(a|a)*`, and a pattern that calls itself.
    """
    if re.search(r"\\[gk][<']|\\[1-9]|\(\?[&PR]", pattern):
        return "a call or a reference to a group"
    # Classes and escapes hold no repetition of their own.
    plain = re.sub(r"\\[pP]\{[^}]*\}|\\.", "x", pattern)
    plain = re.sub(r"\[\^?\]?(?:[^\[\]]|\[:?[^\[\]]*:?\])*\]", "x", plain)
    stack: list[bool] = []
    for place, character in enumerate(plain):
        rest = plain[place + 1 :]
        if character == "(":
            stack.append(False)
        elif character == ")" and stack:
            risky = stack.pop()
            repeated = re.match(r"[*+]|\{\d*,\}|\{\d*,?\d{3,}\}", rest)
            if risky and repeated:
                return "a repeated group that repeats or chooses inside"
            if stack:
                stack[-1] = stack[-1] or risky or bool(repeated)
        elif stack and (character in "*+|" or re.match(r"\{\d*,\d*\}", plain[place:])):
            stack[-1] = True
    return None


def _check_pattern(path: Path, name: str, pattern: Any) -> None:
    if not isinstance(pattern, str):
        return
    if len(pattern) > LONGEST_PATTERN:
        raise ModelError(
            f"{path}: {name}.Regex: found {len(pattern):,} characters, expected at most {LONGEST_PATTERN:,}"
        )
    if reason := endless(pattern):
        raise ModelError(
            f"{path}: {name}.Regex: found {pattern[:80]!r}, with {reason}, which can take for ever; "
            "expected a pattern whose groups do not repeat within one another"
        )


def _growth(node: dict[str, Any]) -> float:
    """How many times longer a replacement can make a text."""
    if node.get("type") != "Replace" or not isinstance(node.get("content"), str):
        return 1.0
    pattern = node.get("pattern")
    text = pattern.get("String") if isinstance(pattern, dict) else None
    # What a regular expression matches may be empty, and is then put in before every character.
    least = len(text) if isinstance(text, str) and text else 0.5
    return max(1.0, len(node["content"]) / least)


def _objects(value: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every JSON object below a value, with its dotted name."""
    pending = [(name, value)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict):
            yield name, value
            pending += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            pending += [(f"{name}[{number}]", inner) for number, inner in enumerate(value)]
