"""A worker: one predictor that answers shards, sets aside what cannot be answered, and publishes both."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from warmstart.data.faults import Fault
from warmstart.data.row_conversion import RowConverter
from warmstart.data.source import FileColumn, file_columns
from warmstart.deploy.label.columns import ROW, answers_file, aside_file, columns_of, plain
from warmstart.deploy.label.job import RECORDS, LabelJob
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.records import FileRecord, check_format, parquet_records, text_records
from warmstart.deploy.label.shards import Shard, write_json
from warmstart.errors import RunError
from warmstart.inference.abstention import abstain
from warmstart.inference.exported_model import source_of
from warmstart.inference.predictor import Predictor, model_folder
from warmstart.storage.artifacts import MANIFEST
from warmstart.text.windows import Truncation

TRIES = 3
PAUSE = 2.0
"""Seconds before a file that could not be read is read again."""


@dataclass(frozen=True)
class ShardRow:
    """A row of a shard: its number, what the model reads, what is kept of it, or what is wrong with it."""

    number: int
    record: FileRecord
    row: Mapping[str, Any] | None
    kept: Mapping[str, Any]
    error: str = ""


class ShardWorker:
    """Answers shards, one at a time.

    Args:
        tries: Counts how often a shard was started, this time included; 1 where nobody counts.
    """

    def __init__(self, work: LabelJob, tries: Callable[[str], int] = lambda shard: 1) -> None:
        import torch

        # Sums depend on the number of threads: all workers use the same.
        torch.set_num_threads(work.threads)
        self.work = work
        self.tries = tries
        if (model := model_fingerprint(work.run)) != work.model:
            raise RunError(f"{work.run}: a worker found model {model[:12]}, the driver has {work.model[:12]}")
        self.predictor = Predictor.load(work.run, work.precision, work.engine)
        task = self.predictor.task
        self.schema = task.schema(task.options).without_answers()
        self.columns = file_columns(work.source, self.schema)
        names = [column.target.name for column in self.columns]
        self.kinds = columns_of(task, names, work.keep, work.min_confidence)

    def __call__(self, group: str, shard: Shard) -> dict[str, Any]:
        """Answer a shard and publish it; returns its record, which is written last and marks it as finished."""
        began = time.monotonic()
        times = self.tries(shard.name)
        if times > TRIES:
            answers, aside = self._all_aside(shard, f"the worker that answered this shard died {TRIES} times")
        else:
            answers, aside = self._tried(shard)
        record = publish(self.work.out, group, shard, answers, aside, self.kinds, self.predictor.cut)
        return {**record, "seconds": time.monotonic() - began}

    def _tried(self, shard: Shard) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The answers, and what was set aside; a file that cannot be read is tried again, then given up."""
        for left in range(TRIES - 1, -1, -1):
            try:
                lines = list(self._lines(shard))
                break
            except OSError as error:
                if not left:
                    return self._all_aside(shard, f"the file could not be read: {error}")
                time.sleep(PAUSE)
        readable = [line for line in lines if line.row is not None]
        answers, wrong = self._answers([line.row for line in readable if line.row is not None])
        aside = [aside_row(shard, line.number, line.error, line.record.text) for line in lines if line.row is None]
        aside += [aside_row(shard, readable[at].number, error, readable[at].record.text) for at, error in wrong.items()]
        left_in = (line for at, line in enumerate(readable) if at not in wrong)
        rows = [
            {ROW: f"{shard.file}:{line.number}", **line.kept, **self._shape(answer)}
            for line, answer in zip(left_in, answers, strict=True)
        ]
        return rows, sorted(aside, key=lambda row: int(row["number"]))

    def _shape(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        least = self.work.min_confidence
        return answer if least is None else abstain(self.predictor.task, answer, least)

    def _lines(self, shard: Shard) -> Iterator[ShardRow]:
        """The rows of a shard, read as `predict --file` reads them, but each by itself."""
        converter = RowConverter(self.columns, self.work.source.label_separator, self.schema.check)
        defaults = self.schema.defaults([column.target.name for column in self.columns])
        for number, record in enumerate(_records(self.work, shard, self.columns), shard.first + 1):
            row, error = (
                (None, record.error) if record.item is None else parse_input(record.item, self.columns, converter)
            )
            kept: dict[str, Any] = {}
            if row is not None and record.item is not None:
                row |= defaults
                kept, error = self._kept(row, record.item)
            yield ShardRow(number, record, None if error else row, kept, error)

    def _kept(self, row: Mapping[str, Any], item: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        if not self.work.keep:
            return {name: row[name] for name in self.kinds if name in row}, ""
        kept = {name: plain(item.get(name)) for name in self.work.keep}
        for name, value in kept.items():
            if name not in item:
                return {}, f"no column {name!r}, which --keep-column names"
            if not _whole(value):
                return {}, f"{name!r} has a lone surrogate, half of a character"
        return kept, ""

    def _answers(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """The answers to those rows that can be answered, and the errors of the others by their index."""
        self.predictor.cut = Truncation()
        try:
            return list(self.predictor.stream(rows)), {}
        except BaseException as error:
            if not _is_fault(error):
                raise
            wrong = dict(self._culprits(rows, 0))
            if not wrong:  # They only fail together: that is the machine's fault, not a row's.
                raise
        self.predictor.cut = Truncation()
        return list(self.predictor.stream([row for at, row in enumerate(rows) if at not in wrong])), wrong

    def _culprits(self, rows: Sequence[Mapping[str, Any]], first: int) -> Iterator[tuple[int, str]]:
        """The indices of rows that fail by themselves, found by bisection."""
        try:
            for _ in self.predictor.stream(rows):
                pass
        except BaseException as error:
            if not _is_fault(error):
                raise
            if len(rows) == 1:
                yield first, f"{type(error).__name__}: {error}"
                return
            half = len(rows) // 2
            yield from self._culprits(rows[:half], first)
            yield from self._culprits(rows[half:], first + half)

    def _all_aside(self, shard: Shard, why: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        self.predictor.cut = Truncation()
        raw: list[str | None] = []
        try:
            raw += [record.text for record in _records(self.work, shard, self.columns)]
        except OSError:
            raw += [None] * (shard.rows - len(raw))
        return [], [aside_row(shard, number, why, text) for number, text in enumerate(raw, shard.first + 1)]


def parse_input(
    item: Mapping[str, Any], columns: Sequence[FileColumn], converter: RowConverter
) -> tuple[dict[str, Any] | None, str]:
    """A record as a row of the task's columns; or None, and what is wrong with it."""
    missing = next((column.name for column in columns if column.name not in item and column.target.required), None)
    if missing is not None:
        return None, f"no column {missing!r}"
    try:
        row, _ = converter.convert([item.get(column.name) for column in columns])
    except Fault as fault:
        return None, str(fault)
    return row, ""


def aside_row(shard: Shard, number: int, error: str, raw: str | None) -> dict[str, Any]:
    """A row that is set aside."""
    error = error.encode("utf-8", "backslashreplace").decode()
    return {ROW: f"{shard.file}:{number}", "file": shard.file, "number": number, "error": error, "raw": raw}


def publish(
    out: Folder,
    group: str,
    shard: Shard,
    answers: Sequence[Mapping[str, Any]],
    aside: Sequence[Mapping[str, Any]],
    kinds: Mapping[str, str],
    cut: Truncation,
) -> dict[str, Any]:
    """Write the files of a shard, then its record; returns the record."""
    if len(answers) + len(aside) != shard.rows:
        raise RunError(
            f"{shard.file}: found {len(answers) + len(aside)} rows from row {shard.first + 1} on, expected "
            f"{shard.rows}: the file was changed; put the old one back and run the same command again"
        )
    files = {}
    for end, data in (
        (".aside.parquet", aside_file(aside) if aside else b""),
        (".parquet", answers_file(answers, kinds)),
    ):
        name = f"{group}/{shard.name}{end}"
        if data:
            out.write(name, data)
            files[f"{shard.name}{end}"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        else:
            out.remove(name)  # of an earlier try
    counts = {"rows": shard.rows, "answered": len(answers), "set_aside": len(aside)}
    record = {"shard": shard.name, **counts, "cut": asdict(cut), "files": files}
    write_json(out, f"{group}/{RECORDS}/{shard.name}.json", record)
    return record


def model_fingerprint(run: str) -> str:
    """What distinguishes one model from another: the checksum of its manifest, which holds those of all its files."""
    folder = model_folder(run)
    if not (folder / MANIFEST).is_file():
        raise RunError(f"{run}: the model has no {MANIFEST}; give a run that `warmstart fit` finished")
    return source_of(folder)


def _records(work: LabelJob, shard: Shard, columns: Sequence[FileColumn]) -> Iterator[FileRecord]:
    """The records of a shard."""
    if check_format(shard.file, work.source) == "parquet":
        names = [*(column.name for column in columns), *work.keep]
        return parquet_records(work.folder, shard.file, shard.first, shard.rows, names)
    return islice(text_records(work.folder, shard.file, work.source, shard.start), shard.rows)


def _whole(value: str | None) -> bool:
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_fault(error: BaseException) -> bool:
    """Whether a row may be the cause; a panic of the tokenizer is not an `Exception`."""
    if isinstance(error, MemoryError | OSError):
        return False
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
