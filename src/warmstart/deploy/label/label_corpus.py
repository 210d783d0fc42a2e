"""Labelling a corpus: files in groups, groups in shards, each shard answered by a Ray worker, exactly once.

manifest = label("runs/reviews", "corpus/", "labelled/")
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from warmstart.data.source import FileColumn, Source, file_columns
from warmstart.deploy.cluster import LOCAL, connected
from warmstart.deploy.label import preflight
from warmstart.deploy.label.bad_files import SET_ASIDE, STOP, BadFileError
from warmstart.deploy.label.job import LOCK, RECORDS, LabelJob
from warmstart.deploy.label.kept_kinds import asked_kinds
from warmstart.deploy.label.locations import Entry, Folder, split
from warmstart.deploy.label.manifest import MANIFEST, Manifest, close, close_group, finished
from warmstart.deploy.label.retries import RETRY_TIMEOUT
from warmstart.deploy.label.shards import (
    PLAN,
    Shard,
    ShardGroup,
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
from warmstart.deploy.label.verification import group_damages
from warmstart.deploy.label.views import check_same_view
from warmstart.errors import BusyError, Location, RecipeError
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import remove_stale_staging
from warmstart.storage.locks import lock_holder, try_lock

VERSIONS = ("warmstart", "torch", "transformers", "tokenizers", "numpy", "pyarrow")
HERE = "here"
"""The address by which no Ray is started: one worker answers in this process."""
SHOWN = 20
"""Damaged files that a rerun names one by one."""


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
    min_confidence: float | None = None,
    engine: str = "torch",
    precision: str = "fp32",
    retry_timeout: float = RETRY_TIMEOUT,
    on_bad_file: Literal["set-aside", "stop"] = "set-aside",
    cpus: int | None = None,
    object_store: int = preflight.STORE,
    vectors: bool = False,
    progress: Progress = silent,
) -> Manifest:
    """Label every row of a file, or of a folder of files, into a folder of Parquet files; return its manifest.

    After any interruption, run it again and it resumes; the files in the end are, byte for byte, those of an
    uninterrupted run. A row that cannot be labelled is set aside, with the reason.

    Args:
        run: A run, or its model folder, at a path that every worker can read.
        source: A file, folder or URI; or a `Source` that says how it is read, with one entry in `files`.
        out: A folder or URI.
        address: `local` to start Ray on this machine, the address of a cluster, or `here` to answer in this process.
        workers: How many workers run in parallel, each with a model; None for as many as fit, with one CPU left over.
        threads: CPUs per worker.
        gpus: GPUs per worker, possibly a fraction.
        rows_per_shard: How many rows are labelled and written together.
        files_per_group: Input files that are planned together, and share a manifest.
        keep: Columns of the input to write next to the predictions, numbers as numbers; `NAME=text` for
            a column to keep as text. By default those that the model reads.
        min_confidence: Leave the label empty if its probability is below this.
        retry_timeout: Seconds for which a failure of storage, network or memory is retried, before an `OutageError`.
        on_bad_file: Whether a file that cannot be decoded is set aside, with the reason, or stops the job.
        cpus: CPUs of a local Ray; None for all.
        object_store: Bytes of its object store.
        vectors: Write the encoder's vector of each text too, the mean of the tokens of its last layer.
    """
    reading = Source((source,)) if isinstance(source, str) else source
    folder, names = split(_absolute(reading.files[0]), retry_timeout)
    target = Folder(_absolute(str(out)), retry_timeout)
    pool = _WorkerPool(address, workers, threads, gpus, preflight.worker_memory(Path(run)), cpus, object_store)
    inputs, left_out = _inputs(folder, names, target, reading)
    from warmstart.deploy.label.worker import model_fingerprint  # heavy: only once the rest is checked
    from warmstart.inference.engine_selection import check_settled

    check_settled(engine, precision)
    model = (str(Path(run).absolute()), model_fingerprint(str(run)))
    work = LabelJob(*model, folder, target, reading, asked_kinds(keep), min_confidence, engine, precision, threads)
    work = replace(work, on_bad_file=on_bad_file, vectors=vectors)
    with _alone(target):
        return _Plan(work, inputs, left_out, rows_per_shard, files_per_group, progress).run(pool)


def _absolute(place: str) -> str:
    """A path as every worker understands it, wherever it was started; a URI as it is."""
    return place if "://" in place else str(Path(place).absolute())


class _WorkerPool:
    """Where the workers run, how many there are, and their resources; refused at once where they do not fit."""

    def __init__(
        self, address: str, workers: int | None, threads: int, gpus: float, memory: int, cpus: int | None, store: int
    ) -> None:
        self.address, self.workers, self.threads, self.gpus = address, workers, threads, gpus
        self.memory, self.cpus, self.store = memory, cpus, store
        if address == HERE:
            self.workers = 1
        elif address == LOCAL:
            self.workers = preflight.check_here(workers, threads, memory, cpus, store)
            self.cpus = self.workers * threads + 1
        else:
            preflight.check_address(address)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Ray, once the cluster is known to have room; None where all is done in this process."""
        if self.address == HERE:
            yield None
            return
        with connected(self.address, self.cpus, self.store) as ray:
            if self.address != LOCAL:
                resources = ray.cluster_resources()
                self.workers = preflight.check_cluster(resources, self.workers, self.threads, self.gpus, self.memory)
            yield ray


def _inputs(folder: Folder, names: list[str] | None, out: Folder, reading: Source) -> tuple[list[Entry], list[str]]:
    """The files to label, once there is room for their answers; and those that are left out."""
    if names is None:
        preflight.check_apart(folder, out)
        inputs, left_out = choose(folder.files(), reading, folder.uri)
    else:
        entries = [folder.entry(name) for name in names]
        inputs, left_out = choose([entry for entry in entries if entry], reading, reading.files[0])
    preflight.check_out(out, inputs)
    return inputs, left_out


@contextmanager
def _alone(out: Folder) -> Iterator[None]:
    """One driver at a time, where a lock can tell; two would do no harm, but do all the work twice."""
    if out.local is None:
        yield
        return
    with try_lock(out.local / LOCK) as mine:
        if not mine:
            raise BusyError(
                f"--out {out.uri}: {lock_holder(out.local / LOCK)} is labelling into it; wait until it has finished"
            )
        yield


class _Plan:
    """What is to be labelled: its groups, and what the plan and every manifest record about it."""

    def __init__(
        self,
        work: LabelJob,
        inputs: Sequence[Entry],
        left_out: Sequence[str],
        rows_per_shard: int,
        files_per_group: int,
        progress: Progress,
    ) -> None:
        self.work, self.columns = _input_columns(work)
        self.size = rows_per_shard
        self.progress = progress
        self.groups = grouped([entry.name for entry in inputs], files_per_group)
        self.left_out = list(left_out)
        reading = asdict(self.work.source)
        self.about: dict[str, Any] = {
            "model": work.model,
            **{name: getattr(work, name) for name in ("engine", "precision", "threads", "min_confidence")},
            "reading": {
                name: value for name, value in reading.items() if name not in ("files", "queries", "documents")
            },
            "rows_per_shard": rows_per_shard,
            "versions": {name: metadata.version(name) for name in VERSIONS},
            **({"vectors": True} if work.vectors else {}),
        }

    def run(self, pool: _WorkerPool) -> Manifest:
        """Label what is not labelled yet, or no longer as it was; returns the manifest of the whole."""
        self.settle()
        out, names = self.work.out, [name for name, _ in self.groups]
        if waiting := self.unfinished():
            out.remove(MANIFEST)
            with pool.connected() as ray:
                if ray is not None:
                    check_same_view(ray, out, self.work.folder, self.groups[0][1][0][1])
                for name in waiting:
                    self.group(ray, name, pool)
        return close(out, names, self.about)

    def settle(self) -> None:
        """Check that the first file can be read, then record the plan, or compare with the one recorded."""
        work, names = self.work, [name for _, files in self.groups for _, name in files]
        readable = names if work.on_bad_file == SET_ASIDE else names[:1]
        work = replace(work, keep=check_first(work.folder, readable, work.source, self.columns, work.keep))
        self.about["keep"] = dict(work.keep)
        listed = {name: [file for _, file in files] for name, files in self.groups}
        settle(self.work.out, {**self.about, "groups": listed, "left_out": self.left_out})
        self.work = replace(work, out=replace(work.out, anchor=PLAN))
        if self.left_out:
            count = len(self.left_out)
            self.progress.log(f"{count:,} files whose names start with . or _ are left out, such as {self.left_out[0]}")

    def unfinished(self) -> list[str]:
        """The groups that have no manifest, and those whose files are not as it lists them; all files are read."""
        names = []
        for name, _ in self.groups:
            if read_json(self.work.out, f"{name}/{MANIFEST}") is None:
                names.append(name)
            elif damages := group_damages(self.work.out, self._planned(name), self.about):
                self.work.out.remove(f"{name}/{MANIFEST}")
                names.append(name)
                for damage in damages[:SHOWN]:
                    self.progress.log(f"{damage}; its shard is labelled again")
                if len(damages) > SHOWN:
                    self.progress.log(f"and {len(damages) - SHOWN:,} more; `warmstart verify` lists all of them")
        return names

    def group(self, ray: Any, name: str, pool: _WorkerPool) -> None:
        """Answer what is left of a group, and write its manifest."""
        group = self._planned(name)
        out = self.work.out
        done = finished(out, group)
        rest = [shard for shard in group.shards if shard.name not in done]
        with self.progress.bar(name, group.rows) as bar:
            bar.advance(sum(record["rows"] for record in done.values()))
            began, rows = time.monotonic(), 0
            for record in self._answered(ray, name, rest, pool) if rest else ():
                rows += record["rows"]
                bar.advance(record["rows"], f"{rows / (time.monotonic() - began):,.0f} rows/s")
                done[record["shard"]] = {key: value for key, value in record.items() if key != "seconds"}
        check_unchanged(self.work.folder, group)
        # What the workers wrote is read here once more: they may see another disk at that path.
        close_group(out, group, finished(out, group), self.about)
        if out.local is not None:  # files that killed workers left half written
            remove_stale_staging(out.local / name)
            remove_stale_staging(out.local / name / RECORDS)

    def _answered(self, ray: Any, name: str, rest: Sequence[Shard], pool: _WorkerPool) -> Iterator[dict[str, Any]]:
        """The record of each shard that is left, as it is finished."""
        if ray is not None:
            from warmstart.deploy.label.cluster_job import answered

            yield from answered(ray, self.work, name, rest, pool.workers or 1, pool.gpus)
            return
        from warmstart.deploy.label.worker import ShardWorker

        worker = ShardWorker(self.work)
        yield from (worker(name, shard) for shard in rest)

    def _planned(self, name: str) -> ShardGroup:
        """The group as planned before, if its files are unchanged; else planned now."""
        out, folder = self.work.out, self.work.folder
        if (group := read_group(out, name)) is None:
            group = cut(self.work, name, dict(self.groups)[name], self.columns, self.size)
            write_group(out, group)
        check_unchanged(folder, group)
        bad = [file for file in group.files if "bad" in file]
        for file in bad:
            if self.work.on_bad_file == STOP:
                raise BadFileError(file["bad"], location=Location(file["file"]))
            self.progress.log(f"{file['file']} is set aside: {file['bad']}")
        return group


def _input_columns(work: LabelJob) -> tuple[LabelJob, tuple[FileColumn, ...]]:
    """The job without answer columns, and the input columns that the model reads."""
    from warmstart.deploy.label.columns import columns_of
    from warmstart.inference.abstention import check_min_confidence
    from warmstart.inference.ensembles import MEMBERS
    from warmstart.inference.folders import model_folder
    from warmstart.models.loading import load_config
    from warmstart.tasks.shared.saved_task import open_task

    folder = model_folder(work.run)
    member = folder / MEMBERS / "0"
    task, _ = open_task(folder, load_config(str(member if member.is_dir() else folder)))
    schema = task.schema(task.options)
    columns = {name: column for name, column in work.source.columns.items() if name not in schema.answers}
    source = replace(work.source, columns=columns, queries=None, documents=None)
    inputs = file_columns(source, schema.without_answers())
    names = [column.target.name for column in inputs]
    if task.pair and "pair" in schema.names and "pair" not in names:
        raise RecipeError("this model reads pairs of texts; name the column of the second one, as --pair other")
    columns_of(task, names, work.keep, work.min_confidence)
    if work.min_confidence is not None:
        check_min_confidence(task, work.min_confidence)
    return replace(work, source=source), inputs
