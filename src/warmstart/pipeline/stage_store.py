"""The store of stages that runs share: a folder each, named by a checksum of all that affects its result.

Next to the folder of a stage is a JSON file of the same name, which records what it was made from. So a stage can be
found without being opened, and one that is missing can be compared with those that are there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from warmstart.errors import BusyError, RunError
from warmstart.evaluation.records import metrics
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.run import ENVIRONMENT
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.storage.artifacts import MANIFEST
from warmstart.storage.folders import discard
from warmstart.storage.locks import lock_holder, try_lock

FORMAT = 1
"""Goes up when a stage of the same settings would come out differently than before."""
Identity: TypeAlias = dict[str, object]
"""All that affects a result, by dotted name."""
VERSIONS = ("warmstart", "torch", "transformers", "tokenizers")
"""Packages whose versions affect a result."""


@dataclass(frozen=True)
class StoreRecord:
    """The JSON file of a stage in the store."""

    stage: str
    """pretrain, multitask, …"""
    made: str
    """The day it was begun."""
    identity: Identity


@dataclass(frozen=True)
class StoredStage:
    """A stage in the store, finished or not."""

    folder: Path
    stage: str
    """pretrain, multitask, …"""
    identity: Identity
    made: str
    """The day it was begun."""

    @property
    def finished(self) -> bool:
        """Whether its training has finished."""
        return is_finished(self.folder)

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def is_finished(folder: Path) -> bool:
    """Whether a stage's folder is complete: its metrics are there, or it was published whole, without a recipe."""
    published = (folder / MANIFEST).is_file() and not (folder / ENVIRONMENT).is_file()
    return published or (folder / metrics.FILE).is_file()


def versions() -> Identity:
    """The versions of the software that a stage depends on."""
    installed = environment()["versions"]
    return {"format": FORMAT, **{f"versions.{name}": installed[name] for name in VERSIONS}}


def stage_folder(store: Path, stage: str, identity: Mapping[str, object]) -> Path:
    """The folder of a stage, whether it is there or not."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return store / f"{stage}-{digest[:16]}"


def unfinished_answers(folder: Path) -> Path:
    """Where a stage distil gathers a teacher's answers until all of them are there."""
    return folder.with_name(f".{folder.name}.answers")


def discard_answers_left_over(folder: Path) -> None:
    """Remove what a run has left that was killed right after it had published a teacher's answers."""
    if not unfinished_answers(folder).is_dir():
        return
    with try_lock(_lock_of(folder)) as mine:  # nobody is answering anew
        if mine and is_finished(folder):
            discard(unfinished_answers(folder))


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def locked_stage(folder: Path, identity: Mapping[str, object]) -> Iterator[None]:
    """Lock a stage while it is trained, refusing where another run trains it; records what it is made from."""
    if not processes.is_main_process():
        yield
        return
    lock = _lock_of(folder)
    with try_lock(lock) as mine:
        if not mine:
            raise BusyError(f"{folder.name}: {lock_holder(lock)} is training this stage; start again when it is done")
        path = folder.with_name(f"{folder.name}.json")
        if not path.is_file():
            stage = folder.name.rpartition("-")[0]
            day = datetime.now(UTC).date().isoformat()
            write_record(StoreRecord(stage, day, dict(identity)), path)
        yield


def stored_stages(store: Path) -> list[StoredStage]:
    """All stages in the store, by name; a file that is not one of ours is ignored."""
    stages = []
    for path in sorted(store.glob("*.json")):
        try:
            record = read_record(StoreRecord, path)
        except RunError:
            continue
        stages.append(StoredStage(path.with_suffix(""), record.stage, record.identity, record.made))
    return stages


def differences(wanted: Mapping[str, object], stage: str, store: Path) -> list[str]:
    """Why no finished stage fits: how the most similar one differs, a line each; nothing where there is none."""
    others = [other for other in stored_stages(store) if other.stage == stage and other.finished]
    differing = [
        [name for name in sorted({*wanted, *other.identity}) if wanted.get(name) != other.identity.get(name)]
        for other in others
    ]
    if not differing:
        return []
    names, nearest = min(zip(differing, others, strict=True), key=lambda both: len(both[0]))
    return [f"{name}: then {nearest.identity.get(name)!r}, now {wanted.get(name)!r}" for name in names]


def remove_stage(stage: StoredStage) -> None:
    """Remove a stage; one that a run is training is refused."""
    lock = _lock_of(stage.folder)
    with try_lock(lock) as mine:
        if not mine:
            raise RunError(f"{stage.folder.name}: {lock_holder(lock)} is training this stage; it is not removed")
        # In this order: a folder without its record would be used, but not be listed.
        discard(stage.folder)
        discard(unfinished_answers(stage.folder))
        stage.folder.with_name(f"{stage.folder.name}.json").unlink(missing_ok=True)
