"""Streams: documents joined into long texts, which a recurrent model reads piece by piece, carrying its state.

Each row of a batch is a stream of its own, and goes on where it stopped in the batch before. The pieces of an epoch
depend on the seed and the epoch alone, so training can resume at any step, given the carried state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from warmstart.errors import RecipeError
from warmstart.storage.json_files import JsonObject
from warmstart.tasks.shared.masking import IGNORED
from warmstart.tasks.shared.protocols import ReadsStream
from warmstart.training.batches import RandomBatchSampler, Rows, row_lengths

SPREAD, SHORT, SHORT_SHARE = 5.0, 0.5, 0.05
"""How the lengths of pieces vary: normally with this standard deviation, and in this share of steps about half as long
(Merity et al. 2018, section 4.1)."""

Ids = npt.NDArray[np.int64]


class TokenSpan(NamedTuple):
    """Some tokens of a document, from the first to before the last."""

    document: int
    start: int
    end: int


class Piece(NamedTuple):
    """What one row of a batch shows of its stream."""

    spans: tuple[TokenSpan, ...]
    """Its tokens, and the one that is read after them, unless that is the end."""
    has_next: bool
    is_first: bool
    """Whether it is the first of an epoch, before which nothing was read."""

    @property
    def length(self) -> int:
        """How many tokens are read."""
        return sum(span.end - span.start for span in self.spans) - self.has_next


class StreamRows:
    """Encoded documents, from which pieces are read.

    Args:
        documents: Rows with `input_ids`.
        bptt: Tokens of a piece, about.
        backward: Whether pieces come from the last to the first; the tokens of each are in the order of the text.
    """

    def __init__(self, documents: Rows, bptt: int, backward: bool = False) -> None:
        self.lengths = row_lengths(documents)
        self.bptt, self.backward = bptt, backward
        self._ids = _ids_of(documents)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitems__(self, pieces: Sequence[Piece]) -> list[JsonObject]:
        """Tokens and labels of some pieces, each with the number of its first document as `row`."""
        return [self._read(piece) for piece in pieces]

    def _read(self, piece: Piece) -> JsonObject:
        tokens = [token for span in piece.spans for token in self._ids[span.document][span.start : span.end].tolist()]
        ids, labels = tokens, [IGNORED, *tokens[:-1]] if self.backward else [*tokens[1:], IGNORED]
        if piece.has_next:
            ids, labels = (ids[1:], labels[1:]) if self.backward else (ids[:-1], labels[:-1])
        return {"input_ids": ids, "labels": labels, "row": piece.spans[0].document, "is_first": piece.is_first}


class StreamBatchSampler(RandomBatchSampler):
    """The pieces of every step: one of each stream, all equally long but for one token at the end of an epoch.

    Documents are joined in random order and divided into as many streams as a batch has rows; every token is in one
    piece. Every epoch has the same number of steps, which schedules and resuming depend on: their lengths are drawn,
    then scaled to fill the epoch.

    The gradient: a token of a short piece would weigh more if each step took the mean over its own tokens. To give all
    tokens the same weight, the sum over a step's tokens is divided by `mean_tokens`, which with plain SGD is the same
    as a learning rate in proportion to the length (Merity et al. 2018, section 4.1).

    Args:
        rows: The documents.
        batch_size: How many streams there are, unless there are fewer tokens.
    """

    def __init__(self, rows: StreamRows, batch_size: int = 32, *, seed: int = 0) -> None:
        super().__init__(len(rows), batch_size, seed=seed)
        self.rows = rows
        self.tokens = int(rows.lengths.sum())
        self.streams = min(batch_size, self.tokens)
        mean = rows.bptt * (1 - SHORT_SHARE * SHORT)
        self.count = max(1, math.ceil(self.tokens // self.streams / mean))

    def __len__(self) -> int:
        return self.count

    @property
    def mean_tokens(self) -> float:
        """Tokens of a step, on average."""
        return self.tokens / self.count

    def __iter__(self) -> Iterator[list[Piece]]:  # type: ignore[override]
        random = np.random.default_rng([self.seed % (1 << 63), self.epoch])
        order = random.permutation(len(self.rows))
        ends = self.rows.lengths[order].cumsum()
        bounds = np.linspace(0, self.tokens, self.streams + 1).astype(np.int64)
        cuts = self._cuts(random)
        for step, (start, end) in enumerate(zip(cuts, [*cuts[1:-1], None], strict=False)):
            places = [self._place(bounds[row], bounds[row + 1], start, end) for row in range(self.streams)]
            yield [self._piece(first, last, order, ends, step == 0) for first, last in places]
        self.epoch += 1

    def _cuts(self, random: np.random.Generator) -> list[int]:
        """Where the steps begin in a stream, and where it ends."""
        halves = np.where(random.random(self.count) < SHORT_SHARE, SHORT, 1.0)
        lengths = np.maximum(random.normal(self.rows.bptt * halves, SPREAD), 1.0).cumsum()
        shortest = self.tokens // self.streams
        cuts = np.round(lengths / lengths[-1] * (shortest - self.count)).astype(np.int64) + np.arange(1, self.count + 1)
        return [0, *cuts.tolist()]

    def _place(self, first: int, last: int, start: int, end: int | None) -> tuple[int, int]:
        """The tokens of a stream from `first` to `last` that a step reads; to the end of it where `end` is None."""
        if self.rows.backward:
            return (first if end is None else last - end), last - start
        return first + start, (last if end is None else first + end)

    def _piece(self, first: int, last: int, order: Ids, ends: Ids, is_first: bool) -> Piece:
        """The piece with the tokens from `first` to `last` of all documents joined in an order."""
        has_next = first > 0 if self.rows.backward else last < self.tokens
        if has_next:
            first, last = (first - 1, last) if self.rows.backward else (first, last + 1)
        spans: list[TokenSpan] = []
        place = int(np.searchsorted(ends, first, side="right"))
        while first < last:
            document, end = int(order[place]), int(ends[place])
            before = end - int(self.rows.lengths[document])
            spans.append(TokenSpan(document, int(first) - before, min(int(last), end) - before))
            first, place = end, place + 1
        return Piece(tuple(spans), bool(has_next), is_first)


def as_stream(task: object, rows: Rows) -> Rows | StreamRows:
    """The rows as a training reads them: as streams, where the task wants that."""
    if isinstance(task, ReadsStream) and task.bptt:
        return StreamRows(rows, task.bptt, task.reads_backward)
    return rows


def check_one_process(processes: int) -> None:
    """Refuse to divide streams between processes, as a checkpoint holds the state of one."""
    if processes > 1:
        raise RecipeError(
            f"task.bptt: found {processes} processes, but streams are read by one; start one, or leave bptt out"
        )


def _ids_of(documents: Rows) -> Sequence[Ids]:
    """The tokens of each document; those of a file stay there until they are read."""
    if not isinstance(documents, datasets.Dataset):
        return [np.asarray(row["input_ids"], dtype=np.int64) for row in documents]
    views: list[Ids] = []
    for chunk in documents.data.column("input_ids").chunks:
        flat = pc.list_flatten(chunk).to_numpy()
        ends = pc.list_value_length(chunk).to_numpy().cumsum()
        views += np.split(flat, ends[:-1])
    return views
