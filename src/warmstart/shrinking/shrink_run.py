"""Shrinking a run: blocks and tokens are removed, the rest is trained back, and kept if it passes the gate."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Row, Schema
from warmstart.data.source import Source
from warmstart.errors import ModelError, RecipeError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.inference.predictor import Predictor
from warmstart.inspection.ablation import Ablations, torch_model
from warmstart.models.factorized_embeddings import check_embedding_size
from warmstart.models.fewer_heads import check_removable_heads, removable_heads
from warmstart.models.layer_map import LayerMap
from warmstart.models.switches import Switches, count_heads
from warmstart.models.vocabulary import TrimmedVocabulary
from warmstart.pipeline.fingerprint import fingerprint
from warmstart.pipeline.prepare import read_rows
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress, silent
from warmstart.shrinking.gate import check_original, judge
from warmstart.shrinking.int8 import check_free, write_int8
from warmstart.shrinking.least_needed import least_heads, order_blocks
from warmstart.shrinking.record import Attempt, ShrinkOptions, Shrunk
from warmstart.shrinking.smaller_model import SmallerModel, check_same_tokens, trimmed_vocabulary
from warmstart.shrinking.train_back import TrainBack, distil, fine_tune, write_texts
from warmstart.storage.artifacts import publish, verify
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import link_or_copy

SHARES = (1 / 2, 1 / 3, 1 / 6)
"""Shares of the blocks that are tried to be removed, one after the other."""


def shrink_run(
    run: RunFolder,
    out: Path,
    options: ShrinkOptions | None = None,
    *,
    texts: Source | None = None,
    train_back: TrainBack | None = None,
    progress: Progress = silent,
) -> Shrunk:
    """Write a smaller model of a run as a model folder; nothing is written if none passes the gate.

    Args:
        out: The folder of the smaller model. Trainings are in a folder beside it until the end, and resume there.
        texts: More texts whose tokens are left in the vocabulary, and which the unshrunk model answers for `distil`.
        train_back: What trains a model from which blocks or heads were removed; by default as the options say.
    """
    options = options or ShrinkOptions()
    if not 0 < options.min_ratio <= 1:
        raise RecipeError(f"--min-ratio {options.min_ratio}: expected a share above 0 and at most 1")
    if out.exists():
        raise RunError(f"{out} already exists; remove it or choose another folder")
    if options.int8 is not None:
        check_free(options.int8)
    shrinking = _Shrinking(run, options, texts, progress)
    vocabulary = shrinking.trim() if options.vocabulary else None
    work = out.with_name(f".{out.name}.shrinking")
    kept = shrinking.attempt_all(work, vocabulary, train_back)
    record = shrinking.record(out, kept)
    with publish(out, {"shrink": asdict(record)}) as staging:
        for name in verify(kept.folder)["files"]:
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(kept.folder / name, staging / name)
    shutil.rmtree(work, ignore_errors=True)
    return record if options.int8 is None else shrinking.quantize(record, out, options.int8)


@dataclass(frozen=True)
class _Kept:
    """The model that passed."""

    folder: Path
    attempt: Attempt


class _Shrinking:
    """A run under the knife: its model, its rows, and what was tried."""

    def __init__(self, run: RunFolder, options: ShrinkOptions, texts: Source | None, progress: Progress) -> None:
        self.run, self.options, self.texts, self.progress = run, options, texts, progress
        self.predictor = Predictor.load(run.folder)
        self.model = torch_model(self.predictor)  # refuses an ensemble
        self.layers = LayerMap.of(self.model)
        self._check_asked()
        if run.recipe.data.train == MEMORY:
            raise RunError(
                f"{run.folder}: its rows were passed in Python, so they cannot be read again; train on files"
            )
        self.tables = read_rows(run.recipe, cache_folder(), progress).tables
        if "dev" not in self.tables:
            raise RunError(
                f"{run.folder}: has no dev rows to decide on; train it with --dev FILE, or with "
                "--set data.split.dev=0.1"
            )
        self.dev = list(self.tables["dev"].dicts())
        self.base = Ablations(self.predictor, self.dev)
        check_original(self.base.measure().scores)
        self.attempts: list[Attempt] = []
        self.notes: list[str] = []

    def trim(self) -> TrimmedVocabulary | None:
        """The vocabulary that the run's rows and further texts use; None, with a note, where it cannot be trimmed."""
        rows = [row for table in self.tables.values() for row in table.dicts()]
        rows += self._further_rows()
        with self.progress.bar("tokens", len(rows)) as bar:
            try:
                vocabulary = trimmed_vocabulary(self.predictor, _counted(rows, bar.advance))
                trial = Predictor(
                    self.predictor.engine, vocabulary.tokenizer, self.predictor.task, self.predictor.window
                )
                check_same_tokens(self.predictor, trial, vocabulary, rows)
            except ModelError as error:
                self._note(f"the vocabulary is left as it is: {error}")
                return None
        return vocabulary

    def attempt_all(self, work: Path, vocabulary: TrimmedVocabulary | None, train_back: TrainBack | None) -> _Kept:
        """The smallest model that passes the gate."""
        heads, size = self._heads(), self.options.embedding_size
        refused = False
        for blocks in [*self._blocks(), *([[]] if heads or size else [])]:
            if refused and blocks:
                continue
            smaller = SmallerModel(self.predictor, vocabulary, blocks, heads, size)
            try:
                smaller.write(start := work / f"without-{smaller.name}", self.dev)
            except ModelError as error:
                refused = True
                self._note(f"all {'blocks' if blocks else 'heads and embeddings'} are left: {error}")
                continue
            self.progress.log(f"training back without {smaller.removed}")
            train_back = train_back or self._train_back(work)
            # By what it starts from: where that is another model now, a training that was stopped is not gone on with.
            name = f"{self.options.train_back}-{smaller.name}-{fingerprint(str(start))[:12]}"
            folder = train_back(start, work / name, self.progress)
            if (attempt := self._judge(folder, smaller)).passed:
                return _Kept(folder, attempt)
        if vocabulary is not None:
            smaller, start = SmallerModel(self.predictor, vocabulary), work / "vocabulary"
            smaller.write(start, self.dev)
            if (attempt := self._judge(start, smaller)).passed:
                return _Kept(start, attempt)
        shutil.rmtree(work, ignore_errors=True)
        tried = "; ".join(
            f"without {one.removed} {one.gate.smaller:.4f} "
            f"(surely {one.gate.low + self.options.min_ratio * one.gate.original:.4f})"
            for one in self.attempts
        )
        base = self.base.measure()
        raise ModelError(
            f"{self.run.folder}: nothing smaller is surely at least {self.options.min_ratio} times as good as "
            f"{base.mean:.4f} on {len(self.dev):,} dev rows, so nothing is written. Tried: {tried or 'nothing'}. "
            f"{'; '.join(self.notes)}. Set a lower --min-ratio, or train the run with more dev rows"
        )

    def record(self, out: Path, kept: _Kept) -> Shrunk:
        """What was removed."""
        count, heads = len(self.layers.blocks), count_heads(self.layers)
        removed_heads = self.options.remove_heads if kept.attempt.removed_heads else 0
        return Shrunk(
            str(out),
            (count, count - len(kept.attempt.removed_blocks)),
            (heads, heads - removed_heads),
            (len(self.predictor.tokenizer), kept.attempt.tokens),
            (_parameters(self.model), kept.attempt.parameters),
            self.attempts,
            [*self.notes, *self._heads_left()],
        )

    def quantize(self, record: Shrunk, folder: Path, out: Path) -> Shrunk:
        """Quantize the smaller model to int8, and record whether it passed the gate."""
        original = self.base.measure().scores
        gate = write_int8(folder, out, self.dev, original, self.options.min_ratio, self.progress)
        notes = record.notes
        if not gate.passed:
            surely = gate.low + gate.min_ratio * gate.original
            reason = f"it scores {gate.smaller:.4f} on dev rows (surely {surely:.4f}), the original {gate.original:.4f}"
            notes = [*notes, f"int8 is not written: {reason}"]
        return replace(record, int8=gate, notes=notes)

    def _train_back(self, work: Path) -> TrainBack:
        """What trains smaller models, as the options say; on labels, with a note, where the task has no teacher."""
        if self.options.train_back == "distil":
            texts, train = work / "texts.jsonl", self.tables["train"]
            columns = [name for name in self._inputs.names if name in train.rows.column_names]
            try:
                train_back = distil(self.run, texts, columns)
            except RecipeError as error:
                self._note(f"trained back on labels alone: {error}")
            else:
                write_texts(chain(train.dicts(), self._further_rows()), columns, texts)
                return train_back
        return fine_tune(self.run)

    def _further_rows(self) -> Iterator[Row]:
        """The texts that were given beside the run's own rows."""
        if self.texts is not None:
            yield from iter_rows(self.texts, self._inputs, Findings())

    @property
    def _inputs(self) -> Schema:
        return self.predictor.task.schema(self.predictor.task.options).without_answers()

    def _blocks(self) -> Iterator[list[int]]:
        """Blocks to remove together, the most first."""
        count = len(self.layers.blocks)
        if self.options.remove is not None:
            if not 0 <= self.options.remove < count:
                raise RecipeError(
                    f"--remove {self.options.remove}: the model has {count} blocks; expected 0 to {count - 1}"
                )
            counts = [self.options.remove] if self.options.remove else []
        else:
            counts = list(dict.fromkeys(int(share * count) for share in SHARES if int(share * count)))
        if not counts:
            return
        try:
            order = order_blocks(self.predictor, self.dev, max(counts), self.progress)
        except ModelError as error:
            self._note(f"all blocks are left: {error}")
            return
        for number in counts:
            yield sorted(order[:number])

    def _check_asked(self) -> None:
        """Refuse, before anything is trained, what this architecture does not allow."""
        heads, size = self.options.remove_heads, self.options.embedding_size
        option = f"--remove-heads {heads}"
        try:
            if heads:
                check_removable_heads(self.model, heads)
            option = f"--embedding-size {size}"
            if size is not None:
                check_embedding_size(self.model, size)
        except ModelError as error:
            raise ModelError(f"{option}: {error}") from None

    def _heads(self) -> dict[int, list[int]]:
        """Heads to remove, of each block by its number."""
        if not self.options.remove_heads:
            return {}
        return least_heads(self.predictor, self.dev, self.options.remove_heads, self.progress)

    def _heads_left(self) -> list[str]:
        """Why no heads are removed, where nobody asked for it."""
        if self.options.remove_heads:
            return []
        try:
            numbers = removable_heads(self.model)
        except ModelError as error:
            return [f"attention heads are left: {error}"]
        listed = ", ".join(map(str, numbers)) or "none"
        return [f"attention heads are left: --remove-heads N removes as many of each block: {listed}"]

    def _judge(self, folder: Path, smaller: SmallerModel) -> Attempt:
        predictor = Predictor.load(folder)
        scores = Ablations(predictor, self.dev).measure().scores
        gate = judge(self.base.measure().scores, scores, self.options.min_ratio)
        attempt = Attempt(
            list(smaller.blocks),
            str(Switches(smaller.heads)),
            smaller.embedding_size,
            smaller.removed,
            len(predictor.tokenizer),
            _parameters(torch_model(predictor)),
            gate,
            gate.passed,
        )
        self.attempts.append(attempt)
        return attempt

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.progress.log(text)


def _counted(rows: Iterable[Row], advance: Any) -> Iterator[Row]:
    for row in rows:
        yield row
        advance()


def _parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
