"""A corpus labelled in miniature: drivers and workers as processes of a simulated machine, answers from the text alone.

The plan, the records and manifests, the reading of files, and what is retried, reported and labelled again are
warmstart's own; Ray is replaced by processes that take shards from a list, and a model by a checksum.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pyarrow import fs

from simulated_disk import ROOT, File
from simulated_disk import Folder as DiskFolder
from simulated_machine import Machine, Process
from simulated_system import System, status
from simulated_training import digest
from warmstart.data.schema import Column
from warmstart.data.source import FileColumn, Source
from warmstart.deploy.label import cluster_job, label_corpus, manifest, verification, worker
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.shards import Shard
from warmstart.errors import BusyError
from warmstart.text.windows import Truncation

INPUTS = f"{ROOT}/corpus"
TEXTS = {"a.jsonl": ['{"text": "one"}', "broken", '{"text": "two"}'], "b.jsonl": ['{"text": "three"}']}
STORE = "s3://bucket/out"
LAG = 12
"""Calls to an object store until a listing shows what was written, or no longer shows what was deleted."""
PATIENCE = 30.0
"""Seconds that a failure of storage is retried."""


class ArrowFile:
    """An open file, as Arrow has it."""

    def __init__(self, system: System, data: bytes) -> None:
        self.system, self.data = system, data

    def read_at(self, count: int, start: int) -> bytes:
        self.system.machine.enter("read", writes=False)
        return self.data[start : start + count]

    def size(self) -> int:
        return len(self.data)

    def metadata(self) -> dict[bytes, bytes]:
        return {b"ETag": digest(self.data).encode()}

    def close(self) -> None:
        pass

    def __enter__(self) -> ArrowFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class LocalFiles(fs.LocalFileSystem):
    """The simulated disk, as Arrow would show it."""

    def use(self, system: System) -> LocalFiles:
        self.system = system
        return self

    def get_file_info(self, where: Any) -> Any:
        if isinstance(where, str):
            return self._info(where)
        base = where.base_dir
        try:
            names = self.system.listdir(base)
        except FileNotFoundError:
            return []
        infos = [self._info(f"{base}/{name}") for name in names]
        below = [fs.FileSelector(info.path, recursive=True) for info in infos if info.type == fs.FileType.Directory]
        return [*infos, *(info for selector in below for info in self.get_file_info(selector))]

    def _info(self, path: str) -> Any:
        try:
            self.system.machine.enter("stat", writes=False)
            node = self.system.machine.disk.look_up(path)
        except (FileNotFoundError, NotADirectoryError):
            return fs.FileInfo(path, fs.FileType.NotFound)
        if isinstance(node, DiskFolder):
            return fs.FileInfo(path, fs.FileType.Directory)
        return fs.FileInfo(path, fs.FileType.File, size=len(node.data), mtime_ns=int(status(node).st_mtime * 1e9))

    def open_input_file(self, path: str) -> ArrowFile:
        self.system.machine.enter("open", writes=False)
        return ArrowFile(self.system, bytes(self.system.machine.disk.file(path).data))

    def delete_file(self, path: str) -> None:
        self.system.unlink(path)


class Store:
    """An object store: an object is there whole or not at all, outlasts every crash, and listings lag behind."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.objects: dict[str, bytes] = {}
        self.listed: dict[str, tuple[int, int]] = {}
        """The size of what a listing shows, or -1 for nothing, and from which call on."""
        self.before: dict[str, int] = {}
        self.calls = 0

    def _enter(self, name: str, writes: bool = False) -> None:
        self.system.machine.enter(name, writes=writes)
        self.calls += 1

    def get_file_info(self, where: Any) -> Any:
        if isinstance(where, str):
            self._enter("head")
            if where in self.objects:
                return fs.FileInfo(where, fs.FileType.File, size=len(self.objects[where]), mtime_ns=1)
            return fs.FileInfo(where, fs.FileType.NotFound)
        self._enter("list")
        sizes = dict(self.before)
        for name, (size, since) in self.listed.items():
            if self.calls >= since:
                sizes[name] = self.before[name] = size
        below = f"{where.base_dir}/"
        shown = {name: size for name, size in sizes.items() if size >= 0 and name.startswith(below)}
        return [fs.FileInfo(name, fs.FileType.File, size=size, mtime_ns=1) for name, size in shown.items()]

    def open_input_file(self, path: str) -> ArrowFile:
        self._enter("get")
        if path not in self.objects:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return ArrowFile(self.system, self.objects[path])

    @contextmanager
    def open_output_stream(self, path: str) -> Iterator[Any]:
        parts: list[bytes] = []
        yield SimpleNamespace(write=parts.append)
        self._enter("put", writes=True)
        self.objects[path] = b"".join(parts)
        self.listed[path] = len(self.objects[path]), self.calls + LAG

    def delete_file(self, path: str) -> None:
        self._enter("delete", writes=True)
        if self.objects.pop(path, None) is not None:
            self.listed[path] = -1, self.calls + LAG


class Answering:
    """What answers a shard: each text by its checksum."""

    def __init__(self, work: LabelJob) -> None:
        self.work = work

    def __call__(self, group: str, shard: Shard) -> dict[str, Any]:
        answers, aside = [], []
        records = islice(worker.text_records(self.work.folder, shard.file, self.work.source, shard.start), shard.rows)
        for number, record in enumerate(records, shard.first + 1):
            if record.item is None:
                aside.append(worker.aside_row(shard, number, record.error, record.text))
            else:
                answers.append({"row": f"{shard.file}:{number}", "label": digest(record.item["text"])})
        kinds = {"row": "text", "label": "text"}
        return worker.publish(self.work.out, group, shard, answers, aside, kinds, Truncation())


class Workers:
    """Processes that answer shards; one that dies is replaced, and its shard answered again, as Ray does."""

    def __init__(self, system: System) -> None:
        self.system = system

    def answered(self, ray: Any, work: LabelJob, group: str, shards: Any, workers: int, gpus: float) -> Iterator[Any]:
        machine, driver = self.system.machine, self.system.machine.process
        assert driver is not None
        waiting, records = list(shards), []
        taken: dict[Process, Shard] = {}

        def labour() -> None:
            own = machine.process
            assert own is not None
            call = cluster_job.WorkerCall(work, None)
            call.worker = Answering(work)  # type: ignore[assignment]
            while waiting and not driver.dead and not driver.ended:
                taken[own] = waiting.pop(0)
                records.append(call({"group": group, **asdict(taken[own])}))
                del taken[own]

        team = [machine.start(labour) for _ in range(min(workers, len(waiting)))]
        for _ in shards:
            while not records:
                machine.sleep(1.0)
                for one in [one for one in team if one.ended]:
                    team.remove(one)
                    if one in taken:
                        waiting.append(taken.pop(one))
                    if waiting:
                        team.append(machine.start(labour))
            yield cluster_job._unless_failed(json.loads(records.pop(0)["record"]), work.out)


class Serial:
    """Reads files one after the other."""

    def __init__(self, readers: int) -> None:
        pass

    def __enter__(self) -> Any:
        return SimpleNamespace(map=lambda function, *items: list(map(function, *items)))

    def __exit__(self, *_: object) -> None:
        pass


def label(out: str) -> Any:
    """Label the corpus into a folder, waiting while another driver does."""
    place = Folder(out, PATIENCE)
    work = LabelJob(f"{ROOT}/run", "model", Folder(INPUTS, PATIENCE), place, Source((INPUTS,)))
    while True:
        try:
            inputs, left_out = label_corpus.choose(work.folder.files(), work.source, INPUTS)
            with label_corpus._alone(place):
                pool = SimpleNamespace(connected=_connected, workers=2, gpus=0)
                return label_corpus._Plan(work, inputs, left_out, 2, 1, label_corpus.silent).run(pool)  # type: ignore[arg-type]
        except BusyError:
            label_corpus.time.sleep(5.0)


@contextmanager
def _connected() -> Iterator[str]:
    yield "Ray, which the workers need not"


@contextmanager
def in_miniature(system: System, stores: list[Store]) -> Iterator[None]:
    """Replace Ray, the model and Arrow's own view of the disk; the last of `stores` is the one that is there."""
    local = LocalFiles().use(system)
    columns = (FileColumn(Column("text", "text", ""), "text"),)

    def open_folder(self: Folder) -> tuple[Any, str]:
        return (stores[-1], self.uri.removeprefix("s3://")) if "://" in self.uri else (local, self.uri)

    replaced: dict[Any, dict[str, Any]] = {
        Folder: {"_open": property(open_folder)},
        label_corpus: {
            "_input_columns": lambda work: (work, columns),
            "check_same_view": lambda *_: None,
            "metadata": SimpleNamespace(version=lambda name: "1"),
        },
        cluster_job: {"answered": Workers(system).answered},
        manifest: {"ThreadPoolExecutor": Serial},
        verification: {"ThreadPoolExecutor": Serial},
        worker: {name: _kept(getattr(worker, name)) for name in ("answers_file", "aside_file")},
    }
    with ExitStack() as stack:
        for owner, names in replaced.items():
            for name, value in names.items():
                stack.enter_context(mock.patch.object(owner, name, value))
        yield


def _kept(write: Any) -> Any:
    """The same rows are the same bytes: they are made once."""
    made = cache(lambda rows, kinds: write(json.loads(rows), *kinds and [dict(kinds)]))
    return lambda rows, kinds=(): made(json.dumps(rows), tuple(dict(kinds).items()) if kinds else ())


def place_corpus(machine: Machine) -> None:
    """Put the corpus on the disk."""
    machine.disk.mkdir(INPUTS)
    for name, lines in TEXTS.items():
        file: File = machine.disk.create(f"{INPUTS}/{name}")
        machine.disk.write(file, 0, ("\n".join(lines) + "\n").encode())
    for node in list(machine.disk.dirty):
        machine.disk.sync(node)
