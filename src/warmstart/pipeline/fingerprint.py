"""What a training depends on: if all of it is the same, going on from a checkpoint gives the same model to the bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warmstart.models.loading import load_config
from warmstart.pipeline.prepare import Parts
from warmstart.recipe import FILES, Recipe
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.storage.artifacts import describe

_CONTENT_COUNTS = {"model", "forgetting.text", "forgetting.start", *(f"data.{name}" for name in FILES)}
"""Fields that name files: what counts is in them, and is known by its fingerprint, or changes no result."""


def identity(recipe: Recipe, parts: Parts, tokens: str) -> dict[str, Any]:
    """Settings, versions, threads and data by dotted name.

    Args:
        tokens: Checksum of the encoded training rows, which stands for tokenizer, window and labels.
    """
    found = environment()
    return {
        **dict(sorted(settings(recipe).items())),
        **{f"data.{name}": part.fingerprint for name, part in parts.tables.items()},
        "data.tokens": tokens,
        "model": fingerprint(recipe.model),
        "threads": found["threads"],
        "processes": processes.count(),
        "python": found["python"],
        "processor": found["processor"],
        "accelerator": found["accelerator"],
        **{f"versions.{name}": version for name, version in found["versions"].items()},
    }


def settings(recipe: Recipe) -> dict[str, Any]:
    """The settings that affect what a training gives; where it starts from is told by content."""
    other = {"checkpoints", "before", "scratch", "reuse", "seeds", "keep", "baseline", "ablate"}
    return {f"recipe.{name}": value for name, value in flat(recipe.model_dump(mode="json", exclude=other), "")}


def together(said: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a training of several tasks depends on: what is said for all, and of each its own under its name.

    Args:
        said: Options of the stage.
        identities: The identity of each task, as it would be by itself.
    """
    common = dict(flat(said, "multitask."))
    own = ("recipe.task", "recipe.data", "recipe.window", "recipe.layers", "recipe.head", "data.")
    first = next(iter(identities.values()))
    return {
        **common,
        "multitask.tasks": list(identities),
        **{
            f"{task}.{name}": found[name]
            for task, found in identities.items()
            for name in found
            if name.startswith(own) and name.replace("recipe.", "multitask.", 1) not in common
        },
        **{name: value for name, value in first.items() if not name.startswith(("recipe.", "data."))},
    }


def flat(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Nested settings by dotted name, but for those that name files."""
    for name, inner in value.items():
        key = f"{prefix}{name}"
        if key in _CONTENT_COUNTS:
            continue
        if isinstance(inner, dict):
            yield from flat(inner, f"{key}.")
        else:
            yield key, inner


def fingerprint(model: str) -> str:
    """What an encoder is known by: a checksum of its folder's files, or its name and revision on the Hub."""
    folder = Path(model)
    if not folder.is_dir():
        return f"{model}@{getattr(load_config(model), '_commit_hash', None)}"
    files = {path.name: describe(path)["sha256"] for path in sorted(folder.glob("[!.]*")) if path.is_file()}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
