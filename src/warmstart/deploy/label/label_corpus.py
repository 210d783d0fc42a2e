"""Labelling a corpus: files in groups, groups in shards, shards answered by workers of Ray, exactly once.

manifest = label("runs/reviews", "corpus/", "labelled/")
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from warmstart.data.source import Source, Wanted, wanted
from warmstart.deploy.cluster import LOCAL, connected
from warmstart.deploy.label import preflight
from warmstart.deploy.label.job import RECORDS, Work
from warmstart.deploy.label.locations import Entry, Folder, split
from warmstart.deploy.label.manifest import MANIFEST, Manifest, close, close_group, finished
from warmstart.deploy.label.shards import (
    Group,
    check_first,
    check_unchanged,
    choose,
    cut,
    grouped,
    read_group,
    read_json,
    settle,
    write_group,
)
from warmstart.errors import Busy, RecipeError
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import sweep
from warmstart.storage.locks import claimed, holder

VERSIONS = ("warmstart", "torch", "transformers", "tokenizers", "numpy", "pyarrow")
LOCK = "lock"


def label(
    run: str | Path,
    source: str | Source,
    out: str | Path,
    *,
    address: str = LOCAL,
    workers: int | None = None,
    threads: int = 1,
    gpus: float = 0,
    rows_per_shard: int = 10_000,
    files_per_group: int = 64,
    keep: Sequence[str] = (),
    least: float | None = None,
    engine: str = "torch",
    precision: str = "fp32",
    cpus: int | None = None,
    store: int = preflight.STORE,
    progress: Progress = silent,
) -> Manifest:
    """Answer every row of a file, or of a folder of files, into a folder of Parquet files; gives its manifest.

    Run again after whatever stopped it, it goes on; the files in the end are, byte for byte, those of a run that
    nothing stopped. A row that cannot be answered is set aside, with the reason.

    Args:
        run: A run, or its model folder, that every worker finds in the same place.
        source: A file, folder or URI; or how such is read, with it as the only one of `files`.
        out: A folder or URI.
        address: `local` for a Ray of our own, or where a cluster is.
        workers: How many models answer at once; None for as many as there is room for, with a CPU left.
        threads: CPUs of a worker.
        gpus: GPUs of a worker, which may be a part of one.
        rows_per_shard: Rows that are answered and published as one.
        files_per_group: Input files that are planned, and closed with a manifest, together.
        keep: Columns of the input to keep beside the answers, as text; by default those that were asked.
        least: Leave the label empty where its probability is below this.
        cpus: Of a Ray of our own; None for as many as there are.
        store: Bytes of its object store.
    """
    reading = Source((source,)) if isinstance(source, str) else source
    folder, names = split(reading.files[0])
    target = Folder(str(out))
    room = _Room(address, workers, threads, gpus, preflight.worker_memory(Path(run)), cpus, store)
    inputs, left_out = _inputs(folder, names, target, reading)
    from warmstart.deploy.label.worker import model_fingerprint  # heavy: only when the rest is well
    from warmstart.inference.engines.opening import check_settled

    check_settled(engine, precision)
    which = (str(Path(run).absolute()), model_fingerprint(str(run)))
    work = Work(*which, folder, target, reading, tuple(keep), least, engine, precision, threads)
    job = _Job(work, inputs, left_out, rows_per_shard, files_per_group, progress)
    with _alone(target):
        job.settle()
        if (done := read_json(target, MANIFEST)) is not None:
            return dict(done)
        if waiting := [name for name, _ in job.groups if read_json(target, f"{name}/{MANIFEST}") is None]:
            with room.connected() as ray:
                for name in waiting:
                    job.group(ray, name, room)
        return close(target, [name for name, _ in job.groups], job.about)


class _Room:
    """Where the workers are, how many, and with what; refused at once where there is no room for them."""

    def __init__(
        self, address: str, workers: int | None, threads: int, gpus: float, memory: int, cpus: int | None, store: int
    ) -> None:
        self.address, self.workers, self.threads, self.gpus = address, workers, threads, gpus
        self.memory, self.cpus, self.store = memory, cpus, store
        if address == LOCAL:
            self.workers = preflight.check_here(workers, threads, memory, cpus, store)
            self.cpus = self.workers * threads + 1
        else:
            preflight.check_address(address)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Ray, after a cluster was found to have room."""
        with connected(self.address, self.cpus, self.store) as ray:
            if self.address != LOCAL:
                found = ray.cluster_resources()
                self.workers = preflight.check_cluster(found, self.workers, self.threads, self.gpus, self.memory)
            yield ray


def _inputs(folder: Folder, names: list[str] | None, out: Folder, reading: Source) -> tuple[list[Entry], list[str]]:
    """The files to label, after there was found to be room for their answers; and those that are left out."""
    if names is None:
        preflight.check_apart(folder, out)
        inputs, left_out = choose(folder.files(), reading, folder.uri)
    else:
        found = [folder.entry(name) for name in names]
        inputs, left_out = choose([one for one in found if one], reading, reading.files[0])
    preflight.check_out(out, inputs)
    return inputs, left_out


@contextmanager
def _alone(out: Folder) -> Iterator[None]:
    """One driver at a time where that can be told; two would do no harm, but all the work twice."""
    if out.local is None:
        yield
        return
    with claimed(out.local / LOCK) as mine:
        if not mine:
            raise Busy(f"--out {out.uri}: {holder(out.local / LOCK)} is labelling into it at present; wait for it")
        yield


class _Job:
    """A labelling as it was asked for: its groups, and what the plan and every manifest say of it."""

    def __init__(
        self,
        work: Work,
        inputs: Sequence[Entry],
        left_out: Sequence[str],
        rows_per_shard: int,
        files_per_group: int,
        progress: Progress,
    ) -> None:
        self.work, self.columns = _asked(work)
        self.size = rows_per_shard
        self.progress = progress
        self.groups = grouped([one.name for one in inputs], files_per_group)
        self.left_out = list(left_out)
        said = asdict(self.work.source)
        self.about: dict[str, Any] = {
            "model": work.model,
            **{name: getattr(work, name) for name in ("engine", "precision", "threads", "least")},
            "keep": list(work.keep),
            "reading": {name: value for name, value in said.items() if name not in ("files", "queries", "documents")},
            "rows_per_shard": rows_per_shard,
            "versions": {name: metadata.version(name) for name in VERSIONS},
        }

    def settle(self) -> None:
        """Look whether the first file can be read, then write down what is to be done, or compare with what was."""
        work, first = self.work, self.groups[0][1][0][1]
        check_first(work.folder, first, work.source, self.columns, work.keep)
        listed = {name: [file for _, file in files] for name, files in self.groups}
        settle(self.work.out, {**self.about, "groups": listed, "left_out": self.left_out})
        if self.left_out:
            count = len(self.left_out)
            self.progress.say(f"{count:,} files with names in . or _ are left out, as {self.left_out[0]}")

    def group(self, ray: Any, name: str, room: _Room) -> None:
        """Answer what is left of a group, and close it."""
        from warmstart.deploy.label.cluster_job import answered

        group = self._planned(name)
        out = self.work.out
        done = finished(out, group)
        rest = [shard for shard in group.shards if shard.name not in done]
        with self.progress.bar(name, group.rows) as bar:
            bar.advance(sum(record["rows"] for record in done.values()))
            began, rows = time.monotonic(), 0
            for record in answered(ray, self.work, name, rest, room.workers or 1, room.gpus) if rest else ():
                rows += record["rows"]
                bar.advance(record["rows"], f"{rows / (time.monotonic() - began):,.0f} rows/s")
                done[record["shard"]] = {key: value for key, value in record.items() if key != "seconds"}
        check_unchanged(self.work.folder, group)
        close_group(out, group, done, self.about)
        if out.local is not None:  # what killed workers left half written
            sweep(out.local / name)
            sweep(out.local / name / RECORDS)

    def _planned(self, name: str) -> Group:
        """The group as it was planned before, if its files are still the same; else planned now."""
        out, folder = self.work.out, self.work.folder
        if (group := read_group(out, name)) is None:
            group = cut(folder, name, dict(self.groups)[name], self.work.source, self.columns, self.size)
            write_group(out, group)
        check_unchanged(folder, group)
        return group


def _asked(work: Work) -> tuple[Work, tuple[Wanted, ...]]:
    """The work without the columns of answers, and the columns of the input that the model is asked about."""
    from warmstart.deploy.label.columns import columns_of
    from warmstart.inference.abstention import check_least
    from warmstart.inference.ensembles import MEMBERS
    from warmstart.inference.predictor import model_folder
    from warmstart.models.loading import load_config
    from warmstart.tasks.shared.task_config import open_task

    folder = model_folder(work.run)
    member = folder / MEMBERS / "0"
    task, _ = open_task(folder, load_config(str(member if member.is_dir() else folder)))
    schema = task.schema(task.options)
    columns = {name: column for name, column in work.source.columns.items() if name not in schema.answers}
    source = replace(work.source, columns=columns, queries=None, documents=None)
    found = wanted(source, schema.questions())
    names = [want.column.name for want in found]
    if task.pair and "pair" in schema.names and "pair" not in names:
        raise RecipeError("this model reads pairs of texts; say which column holds the second one, as --pair other")
    columns_of(task, names, work.keep, work.least)
    if work.least is not None:
        check_least(task, work.least)
    return replace(work, source=source), found
