"""A worker: one predictor that answers shards, sets aside what cannot be answered, and publishes both."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from warmstart.data.faults import Fault
from warmstart.data.row_conversion import RowConverter
from warmstart.data.source import FileColumn, file_columns
from warmstart.deploy.label.attempts import DEATHS, AttemptCounter, Attempts, deadly_rows
from warmstart.deploy.label.bad_files import STOP, BadFileError, bad_files
from warmstart.deploy.label.columns import ROW, VECTOR, answers_file, aside_file, columns_of
from warmstart.deploy.label.job import RECORDS, LabelJob
from warmstart.deploy.label.kept_kinds import as_kind
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.records import FileRecord, check_format, parquet_records, text_records
from warmstart.deploy.label.retries import is_storage_fault
from warmstart.deploy.label.shards import Shard, write_json
from warmstart.errors import Location, OutageError, RunError, WarmstartError
from warmstart.inference.abstention import abstain
from warmstart.inference.exported_model import source_of
from warmstart.inference.features import Extractor
from warmstart.inference.folders import model_folder
from warmstart.inference.predictor import Predictor
from warmstart.storage.artifacts import MANIFEST
from warmstart.text.windows import Truncation

DIED = f"the worker that answered this row, and nothing else, died {DEATHS} times"


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
        attempts: Counts what workers began and did not finish; its own count where it is the only worker.
    """

    def __init__(self, work: LabelJob, attempts: Attempts | None = None) -> None:
        import torch

        # Sums depend on the number of threads: all workers use the same.
        torch.set_num_threads(work.threads)
        self.work = work
        self.attempts = attempts or AttemptCounter()
        if (model := model_fingerprint(work.run)) != work.model:
            raise RunError(f"{work.run}: a worker found model {model[:12]}, the driver has {work.model[:12]}")
        self.predictor = Predictor.load(work.run, work.precision, work.engine)
        task = self.predictor.task
        self.schema = task.schema(task.options).without_answers()
        self.columns = file_columns(work.source, self.schema)
        names = [column.target.name for column in self.columns]
        self.kinds = columns_of(task, names, work.keep, work.min_confidence)
        self.extractor: Extractor | None = None
        if work.vectors:
            self.extractor = Extractor.load(work.run, precision=work.precision)
            self.kinds[VECTOR] = VECTOR

    def __call__(self, group: str, shard: Shard) -> dict[str, Any]:
        """Answer a shard and publish it; returns its record, which is written last and marks it as finished."""
        began = time.monotonic()
        bad = ""
        try:
            answers, aside = self._answered(shard, self._read(shard))
        except BadFileError as error:
            if self.work.on_bad_file == STOP:
                raise
            bad = error.problem
            self.predictor.cut = Truncation()
            numbers = range(shard.first + 1, shard.first + shard.rows + 1)
            answers, aside = [], [aside_row(shard, number, bad, None) for number in numbers]
        record = publish(self.work.out, group, shard, answers, aside, self.kinds, self.predictor.cut, bad)
        return {**record, "seconds": time.monotonic() - began}

    def _read(self, shard: Shard) -> list[ShardRow]:
        """The rows of a shard; what its file system or the network does wrong is waited out below this."""
        what = f"{shard.name} reading"
        if self.attempts.begin(what) >= DEATHS:
            problem = f"the worker that read rows {shard.first + 1} and following died {DEATHS} times"
            raise BadFileError(problem, location=Location(shard.file))
        with bad_files(shard.file, check_format(shard.file, self.work.source)):
            lines = list(self._lines(shard))
        self.attempts.finish(what)
        return lines

    def _answered(self, shard: Shard, lines: Sequence[ShardRow]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The answers, and what was set aside."""
        readable = [line for line in lines if line.row is not None]
        answers, wrong = self._survived(shard.name, [line.row for line in readable if line.row is not None])
        aside = [aside_row(shard, line.number, line.error, line.record.text) for line in lines if line.row is None]
        aside += [aside_row(shard, readable[at].number, error, readable[at].record.text) for at, error in wrong.items()]
        left_in = [line for at, line in enumerate(readable) if at not in wrong]
        if self.extractor is not None and left_in:
            vectors = self.extractor.vectors([line.row for line in left_in])
            answers = [{**answer, VECTOR: vector} for answer, vector in zip(answers, vectors, strict=True)]
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
        converter = RowConverter(self.columns, self.work.source.label_separator, self.schema)
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
        kept: dict[str, Any] = {}
        for name, kind in self.work.keep.items():
            if name not in item:
                return {}, f"no column {name!r}, which --keep-column names"
            kept[name], error = as_kind(name, item[name], kind)
            if error:
                return {}, error
            if not _whole(kept[name]):
                return {}, f"{name!r} has a lone surrogate, half of a character"
        return kept, ""

    def _survived(self, name: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """As `_answers`; rows that killed a worker by themselves are among those that cannot be answered."""
        deadly: set[int] = set()
        if self.attempts.begin(f"{name} answers"):

            def answer(part: range) -> None:
                self._answers([rows[at] for at in part])

            deadly = set(deadly_rows(self.attempts, name, range(len(rows)), answer))
            if self.attempts.begin(f"{name} rest") >= DEATHS:
                raise OutageError(
                    f"shard {name}: {DEATHS} workers died of it, though each of its rows can be answered; is there too "
                    "little memory? Take fewer --workers, or fewer --rows-per-shard in another --out"
                )
        others = [at for at in range(len(rows)) if at not in deadly]
        answers, wrong = self._answers([rows[at] for at in others])
        return answers, {**dict.fromkeys(deadly, DIED), **{others[at]: error for at, error in wrong.items()}}

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
    bad: str = "",
) -> dict[str, Any]:
    """Write the files of a shard, then its record; returns the record.

    Args:
        bad: Why the file could not be read, where that is so.
    """
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
    if bad:
        record["bad_file"] = {shard.file: bad}
    write_json(out, f"{group}/{RECORDS}/{shard.name}.json", record)
    return record


def model_fingerprint(run: str) -> str:
    """What distinguishes one model from another: the checksum of its manifest, which holds those of all its files."""
    folder = model_folder(run)
    if not (folder / MANIFEST).is_file():
        raise RunError(f"{run}: the model has no {MANIFEST}; give a run that `warmstart fit` finished")
    return source_of(folder)


def has_model(run: str) -> bool:
    """Whether the run's model is within reach at the moment."""
    try:
        return (model_folder(run) / MANIFEST).is_file()
    except (OSError, WarmstartError):
        return False


def _records(work: LabelJob, shard: Shard, columns: Sequence[FileColumn]) -> Iterator[FileRecord]:
    """The records of a shard."""
    if check_format(shard.file, work.source) == "parquet":
        names = [*(column.name for column in columns), *work.keep]
        return parquet_records(work.folder, shard.file, shard.first, shard.rows, names)
    return islice(text_records(work.folder, shard.file, work.source, shard.start), shard.rows)


def _whole(value: object) -> bool:
    try:
        (value if isinstance(value, str) else "").encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_fault(error: BaseException) -> bool:
    """Whether a row may be the cause; a panic of the tokenizer is not an `Exception`."""
    if is_storage_fault(error):
        return False
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
