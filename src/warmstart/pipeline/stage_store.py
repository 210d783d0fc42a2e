"""Stages kept where every run finds them: a folder each, named after all that affects its result.

Beside the folder of a stage stands a JSON file of the same name, which says what it was made from. So a stage that is
wanted again is known without being opened, and one that is not found can be held against those that are there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warmstart.errors import Busy, RunError
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.storage.artifacts import write_json
from warmstart.storage.json_files import read_object
from warmstart.storage.locks import claimed, holder

FORMAT = 1
"""Goes up when a stage of the same settings comes out otherwise than before."""
VERSIONS = ("warmstart", "torch", "transformers", "tokenizers")
"""Packages whose versions affect a result."""


@dataclass(frozen=True)
class Stored:
    """A stage in the store, finished or not."""

    folder: Path
    stage: str
    """pretrain, multitask, …"""
    identity: dict[str, Any]
    made: str
    """The day it was begun."""

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return is_finished(self.folder)

    @property
    def bytes(self) -> int:
        """What it takes on the disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def is_finished(folder: Path) -> bool:
    """Whether a stage's folder came to its end: what is written last is there."""
    return any((folder / name).is_file() for name in ("metrics.json", "manifest.json"))


def versions() -> dict[str, Any]:
    """What of the software a stage depends on."""
    found = environment()["versions"]
    return {"format": FORMAT, **{f"versions.{name}": found[name] for name in VERSIONS}}


def place(store: Path, stage: str, identity: Mapping[str, Any]) -> Path:
    """The folder of a stage, whether it is there or not."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return store / f"{stage}-{digest[:16]}"


@contextmanager
def held(folder: Path, identity: Mapping[str, Any]) -> Iterator[None]:
    """Hold a stage while it is made, refusing where another run makes it; what it is made from is written down."""
    if not processes.is_main():
        yield
        return
    lock = folder.with_name(f".{folder.name}.lock")
    with claimed(lock) as mine:
        if not mine:
            raise Busy(f"{folder.name}: {holder(lock)} makes this stage at present; start again when it is done")
        about = folder.with_name(f"{folder.name}.json")
        if not about.is_file():
            stage = folder.name.rpartition("-")[0]
            day = datetime.now(UTC).date().isoformat()
            write_json(about, {"stage": stage, "made": day, "identity": dict(identity)})
        yield


def stored(store: Path) -> list[Stored]:
    """All stages in the store, by name; a file that is not ours is passed over."""
    found = []
    for about in sorted(store.glob("*.json")):
        try:
            said = read_object(about, RunError)
            found.append(Stored(about.with_suffix(""), said["stage"], said["identity"], said["made"]))
        except (RunError, KeyError):
            continue
    return found


def differences(wanted: Mapping[str, Any], stage: str, store: Path) -> list[str]:
    """Why no finished stage fits: what differs from the one nearest to it, a line each; nothing where there is none."""
    others = [one for one in stored(store) if one.stage == stage and one.finished]
    found = [
        [name for name in sorted({*wanted, *one.identity}) if wanted.get(name) != one.identity.get(name)]
        for one in others
    ]
    if not found:
        return []
    names, nearest = min(zip(found, others, strict=True), key=lambda both: len(both[0]))
    return [f"{name}: then {nearest.identity.get(name)!r}, now {wanted.get(name)!r}" for name in names]


def remove(one: Stored) -> None:
    """Remove a stage; one that a run makes at present is refused."""
    lock = one.folder.with_name(f".{one.folder.name}.lock")
    with claimed(lock) as mine:
        if not mine:
            raise RunError(f"{one.folder.name}: {holder(lock)} makes this stage at present; it is not removed")
        one.folder.with_name(f"{one.folder.name}.json").unlink(missing_ok=True)
        shutil.rmtree(one.folder, ignore_errors=True)
