"""What only some tasks do: each protocol is one ability, and a task has it by having its methods.

Callers ask `isinstance(task, SearchesDocuments)`, never for a task by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from warmstart.data.schema import Row
from warmstart.tasks.base import Answer, Batch, Columns, ErrorTable
from warmstart.text.windows import Window

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch
    from datasets import Dataset
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from warmstart.models.linear_probe import ProbeKind

    Vectors: TypeAlias = npt.NDArray[np.float32]


class ReadsWindows:
    """Reads a long row whole, in overlapping windows that are features of their own; answers are merged from them."""

    window_overlap: ClassVar[float] = 0.25
    """The share of a window that it has in common with the one before, where the recipe sets none."""


@runtime_checkable
class ExtendsModel(Protocol):
    """Puts modules of its own on a model, or around it."""

    def extend_model(self, model: PreTrainedModel, folder: Path | None) -> nn.Module:
        """The model as the task uses it.

        Args:
            folder: The model folder with the modules' weights; None where they start from random numbers.
        """
        ...

    def plain_model(self, model: Any) -> PreTrainedModel:
        """The model to save: the one that was extended, where the modules are around it."""
        ...


@runtime_checkable
class HasTensors(Protocol):
    """Answers with tensors of its own, which an engine without PyTorch modules does not have."""

    def load_tensors(self, folder: Path | None) -> None:
        """Load them from a model folder, or from one that `save_tensors` wrote to; None where they start anew."""
        ...

    def save_tensors(self, folder: Path) -> None:
        """Write them next to an exported model."""
        ...


@runtime_checkable
class WritesLibraryFiles(Protocol):
    """Makes a saved model open in another library than transformers."""

    def write_library_files(self, model: Any, window: Window, folder: Path) -> None:
        """Write that library's files next to a saved model."""
        ...

    @staticmethod
    def library_usage(folder: Path) -> tuple[str, str] | None:
        """The library's name and the code that opens a model folder in it; None for a folder without its files."""
        ...


@runtime_checkable
class HasLinearProbe(Protocol):
    """Has a linear head over one vector a row, which a linear model solves."""

    @property
    def probe_kind(self) -> ProbeKind:
        """The linear model whose outputs are those of the head."""
        ...

    @property
    def label_names(self) -> Sequence[str]:
        """Each label in words, by its id, where these are texts like those of rows; else nothing."""
        ...


@runtime_checkable
class LearnsFromAnswers(Protocol):
    """Can learn from the answers of another model of the same task, as they are written to files."""

    taught_columns: ClassVar[Mapping[str, str]]
    """The column to learn from, and the field of an answer that it is; one that the schema does not have is a number
    that labelled rows lack."""


@runtime_checkable
class ChecksTeacher(Protocol):
    """Can learn from the answers of some models of the same task, and not from those of others."""

    @classmethod
    def check_teacher(cls, options: Any, teacher: Mapping[str, Any]) -> list[str]:
        """The columns of `taught_columns` that a teacher with these options gives.

        One whose answers cannot be learned is refused in words, as is such a student.
        """
        ...


@runtime_checkable
class VariesByEpoch(Protocol):
    """Trains on features that differ from epoch to epoch."""

    def features_for_epoch(
        self, features: Sequence[Any], tokenizer: PreTrainedTokenizerBase, seed: int, epoch: int, epochs: int
    ) -> Sequence[Any]:
        """Features as they are in one epoch, the first being 0.

        What is random here depends on the seed, the epoch and the feature alone, not on who shares its batch: so a
        training can be resumed from any step, and be shared by any number of processes.
        """
        ...


@runtime_checkable
class ReadsStream(Protocol):
    """Can train on documents joined into streams, which a model reads piece by piece, carrying its state."""

    @property
    def bptt(self) -> int | None:
        """Tokens of a piece, about; None where each row is read by itself."""
        ...

    reads_backward: bool
    """Whether the model reads from the last token to the first."""


@runtime_checkable
class CountsFindings(Protocol):
    """Notices something about rows while it encodes them, and counts it in their features."""

    encoding_findings: ClassVar[Mapping[str, tuple[str, str]]]
    """By the name that features hold the count under: the kind of finding, and its message, in which `{count}` is the
    total of all rows, `{rows}` their number, and `{others}` the number of those without; it is located at the first."""


@runtime_checkable
class CountsLossItems(Protocol):
    """Has a loss that is not a mean over rows."""

    def loss_counts(self, batch: Batch) -> dict[str, int]:
        """How many items each part of the loss is the mean over, such as tokens; a part not named is over rows.

        A loss that is one number has one part, whose name is "".
        """
        ...


@runtime_checkable
class ScoresTokens(Protocol):
    """Has a loss over a vocabulary at some of the tokens: a training step computes no other logits."""

    def loss_targets(self, labels: Any) -> torch.Tensor:
        """The token to predict at each place of the batch, or IGNORED: the loss needs no logits there."""
        ...


@runtime_checkable
class ArrangesRows(Protocol):
    """Trains on other rows than those of the file, such as queries with hard negatives."""

    @property
    def arranges_rows(self) -> bool:
        """Whether it does so with its options."""
        ...

    def arrange_rows(
        self, columns: Columns, vectors: Callable[[Sequence[str], str], Vectors], seed: int
    ) -> tuple[list[int], dict[str, list[Any]], list[str]]:
        """Which rows to train on, further columns for those, each a list of texts, and notes for the user.

        Args:
            vectors: Gives the vectors of texts, of the side `query` or `document`, by the untrained encoder.
        """
        ...

    def embedding_model(self, model: Any) -> nn.Module:
        """A model that gives vectors, with the encoder of `model`."""
        ...


@runtime_checkable
class KnowsTrainingRows(Protocol):
    """Must know of all training rows to make a batch of some."""

    def read_training_rows(self, rows: Dataset) -> None:
        """Called with the features of all rows, before any of them is in a batch."""
        ...


@runtime_checkable
class SearchesDocuments(Protocol):
    """Ranks documents for a query, by vectors where the model gives any."""

    @property
    def distance_metric(self) -> str:
        """How vectors are compared: `cosine`, for vectors of length 1, or `euclidean`."""
        ...

    def searches_documents(self, collection: bool) -> bool:
        """Whether rows are evaluated by a search among all documents, not each by itself.

        Args:
            collection: Whether there are documents besides those of the rows.
        """
        ...

    def encode_texts(
        self, texts: Sequence[str], side: str, tokenizer: PreTrainedTokenizerBase, window: Window
    ) -> Sequence[Mapping[str, Any]]:
        """One feature a text, for its vector; the side is `query` or `document`."""
        ...


@runtime_checkable
class TunesOnDev(Protocol):
    """Has something to choose on dev rows after training, such as a threshold."""

    @property
    def tunes_on_dev(self) -> bool:
        """Whether its options leave something to choose."""
        ...

    @property
    def needs_dev(self) -> str:
        """The option that cannot do without dev rows; empty where none is set."""
        ...

    def tune(self, columns: Columns, predictions: Sequence[Answer]) -> Self:
        """The task with what was chosen, given the model's answers to the dev rows; that one is saved."""
        ...


@runtime_checkable
class EncodesQueries(Protocol):
    """Encodes rows to be answered otherwise than rows to learn from."""

    def encode_query(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[Any]:
        """Rows as columns → features to be answered."""
        ...

    def eval_row(self, row: Row, number: int) -> Row:
        """Row `number` of a table, as it is answered when the model is evaluated."""
        ...


@runtime_checkable
class ShowsErrors(Protocol):
    """Knows kinds of errors of its own."""

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """Tables that show where those errors are.

        Args:
            columns: All that the rows hold; of rows that cannot be read again, the answers alone.
        """
        ...


@runtime_checkable
class PairsConfusions(Protocol):
    """Has a confusion matrix of something else than rows with one label each."""

    def confusion_pairs(self, answers: Sequence[Any], predictions: Sequence[Answer]) -> list[tuple[str, str]]:
        """A true and a predicted label for each thing that the matrix counts."""
        ...


@runtime_checkable
class ExplainsAnswers(Protocol):
    """Has answers that can be traced back to words."""

    def token_origins(
        self, row: Row, tokenizer: PreTrainedTokenizerBase, window: Window
    ) -> list[list[list[tuple[str, tuple[int, int]] | None]]]:
        """Of each feature of a row, and of each of its sequences, where every token comes from.

        That is its column and its characters there, or None for a token that is no part of the row.
        """
        ...

    def explained_output(self, outputs: Mapping[str, torch.Tensor], features: Sequence[Any], answer: Answer) -> Any:
        """How strongly the outputs for the features of one row speak for an answer: a tensor with one number."""
        ...


def learns_from_answers(task: type) -> bool:
    """Whether tasks of this class are `LearnsFromAnswers`, before there is one."""
    return hasattr(task, "taught_columns")


def extended_model(task: object, model: PreTrainedModel, folder: Path | None) -> nn.Module:
    """The model as a task uses it, with modules of the task's own where it has any.

    Args:
        folder: The model folder with the modules' weights; None where they start from random numbers.
    """
    return task.extend_model(model, folder) if isinstance(task, ExtendsModel) else model
