"""A study that is based on another: the other's fields, with its files found from the new folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from warmstart.errors import RecipeError
from warmstart.options import Value, Values
from warmstart.storage.yaml_files import read_yaml

FILE = "study.yaml"
BASED_ON = "based_on"


def inherited(values: Mapping[str, Value], folder: Path) -> Values:
    """The fields of a study with those of the one that it is based on, if it is based on any.

    Args:
        folder: The folder of the study.
    """
    if not (name := values.get(BASED_ON)):
        return dict(values)
    base = folder / str(name)
    if not (base / FILE).is_file():
        raise RecipeError(f"{folder / FILE}: {BASED_ON}: there is no {base / FILE}; expected the folder of a study")
    content, _ = read_yaml(base / FILE)
    if content.get(BASED_ON):
        raise RecipeError(f"{folder / FILE}: {BASED_ON}: {base / FILE} is based on another study itself; name that one")
    content = {**content, "data": os.path.relpath(base / str(content.get("data", ".")), folder)}
    peers = content.get("peers") or {}
    content["peers"] = {
        key: {**peer, "script": os.path.relpath(base / str(peer["script"]), folder)} for key, peer in peers.items()
    }
    if "sets" in values:
        content = {**_without_sets(content, set(values["sets"] or ())), "data": "."}
    return {**content, **values}


def _without_sets(content: Values, sets: set[str]) -> Values:
    """A study's fields without what is about other sets than these."""
    methods = {name: dict(method or {}) for name, method in (content.get("methods") or {}).items()}
    for method in methods.values():
        if "by_set" in method:
            method["by_set"] = {name: fields for name, fields in method["by_set"].items() if name in sets}
        method.pop("sets", None)
    claims = [claim for claim in content.get("claims") or [] if set(claim.get("sets") or ()) <= sets]
    peers = {
        name: {key: value for key, value in peer.items() if key != "sets"} for name, peer in content["peers"].items()
    }
    return {**content, "methods": methods, "claims": claims, "peers": peers}
