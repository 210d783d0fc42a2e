"""What a training depends on: if all of it is the same, resuming from a checkpoint gives the same model to the bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from warmstart.models.loading import load_config
from warmstart.models.precision import resolve_precision
from warmstart.pipeline.prepare import Parts
from warmstart.pipeline.stage_store import Identity
from warmstart.recipe import FILES, Recipe
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.storage.artifacts import checksum

_FILES = {"model", "forgetting.text", "forgetting.reference", *(f"data.{name}" for name in FILES)}
"""Fields that name files: their content counts, which has a fingerprint of its own, or affects no result."""


def identity(recipe: Recipe, parts: Parts, tokens: str) -> Identity:
    """Settings, versions, threads and data by dotted name.

    Args:
        tokens: Checksum of the encoded training rows, which stands for tokenizer, window and labels.
    """
    here = environment()
    return {
        **dict(sorted(settings(recipe).items())),
        **{f"data.{name}": part.fingerprint for name, part in parts.tables.items()},
        "data.tokens": tokens,
        "model": fingerprint(recipe.model),
        # What `auto` is depends on the machine, and two processors of one name can differ in it.
        "precision": resolve_precision(recipe.training.precision, load_config(recipe.model)),
        "threads": here["threads"],
        "processes": processes.world_size(),
        "python": here["python"],
        "processor": here["processor"],
        "accelerator": here["accelerator"],
        **{f"versions.{name}": version for name, version in here["versions"].items()},
    }


def settings(recipe: Recipe) -> Identity:
    """The settings that affect the result of a training; its data and model are known by their content."""
    other = {"models", "checkpoints", "stages", "from_scratch", "reuse_stages", "seeds", "select", "baseline", "ablate"}
    return {f"recipe.{name}": value for name, value in flatten(recipe.model_dump(mode="json", exclude=other), "")}


def multitask_identity(options: Mapping[str, object], identities: Mapping[str, Mapping[str, object]]) -> Identity:
    """What a training of several tasks depends on: the options for all, and of each task its own under its name.

    Args:
        options: Options of the stage.
        identities: The identity of each task, as it would be by itself.
    """
    common = dict(flatten(options, "multitask."))
    own = ("recipe.task", "recipe.data", "recipe.window", "recipe.layers", "recipe.head", "data.")
    first = next(iter(identities.values()))
    return {
        **common,
        "multitask.tasks": list(identities),
        **{
            f"{task}.{name}": value
            for task, alone in identities.items()
            for name, value in alone.items()
            if name.startswith(own) and name.replace("recipe.", "multitask.", 1) not in common
        },
        **{name: value for name, value in first.items() if not name.startswith(("recipe.", "data."))},
    }


def flatten(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Nested settings by dotted name, except those that name files."""
    for name, inner in values.items():
        key = f"{prefix}{name}"
        if key in _FILES:
            continue
        if isinstance(inner, dict):
            yield from flatten(inner, f"{key}.")
        else:
            yield key, inner


def fingerprint(model: str) -> str:
    """A checksum of an encoder's files, or its name and revision on the Hub."""
    folder = Path(model)
    if not folder.is_dir():
        return f"{model}@{getattr(load_config(model), '_commit_hash', None)}"
    paths = (*folder.glob("[!.]*"), *folder.glob("?_*/*.safetensors"))
    files = {str(path.relative_to(folder)): checksum(path)["sha256"] for path in sorted(paths) if path.is_file()}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
