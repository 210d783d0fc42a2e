"""What a task is: columns, options, head, encode, collate, loss, decode and metrics, in one class of one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from warmstart.data.schema import Schema
from warmstart.errors import DataError, RecipeError
from warmstart.options import Options
from warmstart.text.windows import METHODS, Window

OptionsT = TypeVar("OptionsT", bound=Options)
Mixing = Literal["softmax", "sigmoid", "mean"]
Shown = dict[str, Any]
"""A table for people: `title`, `note`, `columns` and `rows`."""
Feature = dict[str, Any]
"""One encoded example: token ids and whatever else the task's head wants.

Beside them stand `tokens` and `cut`: how many tokens the row has, and how many of them are nowhere seen. Where a row
has several features, each says by `of` which of the rows given it belongs to, and the first one counts the tokens.
A feature that is to be batched with longer ones says as how long by `length`.
"""


EXAMPLE = "Alice left the book in Paris."


class Task(ABC, Generic[OptionsT]):
    """One kind of thing to learn, fitted to one data set (its labels, its options)."""

    name: ClassVar[str]
    options_class: ClassVar[type[Options]]
    auto_class: str
    """The `transformers` Auto class whose head fits."""
    headline: str
    """The metric shown first."""
    own_windows: ClassVar[bool] = False
    """A long row is seen whole, in overlapping windows that are features of their own; answers are joined from them."""
    keeps: ClassVar[tuple[str, ...]] = METHODS
    """The windows it can be given, as `keep` of `Window`."""
    new_tokens: tuple[str, ...] = ()
    """Tokens of its own that the tokenizer is to know."""
    tokens: str = "auto"
    """The tokens that the head reads, as `tokens` of `Pooling`, where that is the task's business."""
    own_overlap: ClassVar[float] = 0.25
    """The share of such a window that it has in common with the one before, where none is said."""
    at_once: ClassVar[int | None] = None
    """The most rows of tokens that are answered at once, where a row's outputs are large."""
    tunes: ClassVar[bool] = False
    """Whether there is something to choose on dev rows after training: see `tune`."""

    likeliest: bool = False
    """Whether an answer is the likeliest of several by a softmax over `logits`: a `label` with its `probability` among
    `probabilities`. Only such answers can be calibrated and held back."""
    apart: ClassVar[bool] = True
    """Whether the score of a row is its own, and not that of a group of rows."""
    doubles: bool = True
    """Whether two passes of one batch can be held against each other, as R-Drop does."""

    def __init__(self, options: OptionsT, pair: bool) -> None:
        self.options = options
        self.pair = pair

    @classmethod
    def auto_class_for(cls, options: OptionsT) -> str:
        """The Auto class, where it depends on the options."""
        return cls.auto_class

    @classmethod
    def mixing(cls, options: OptionsT) -> Mixing | None:
        """How what several models say becomes one answer; None where no mean of outputs is an answer.

        As the mean of their chances, with logits of one label (`softmax`) or many (`sigmoid`), or of the outputs as
        they are (`mean`).
        """
        return None

    @classmethod
    @abstractmethod
    def schema(cls, options: OptionsT) -> Schema:
        """The columns to read."""

    @classmethod
    @abstractmethod
    def learn(cls, options: OptionsT, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        """Fit the task to the training answers: find the labels there are.

        Args:
            saved: The config of a model whose head is kept; its labels must be the data's.
        """

    @classmethod
    @abstractmethod
    def of(cls, options: OptionsT, pair: bool, config: Any) -> Self:
        """The task as a saved model's config tells it."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What the model's config must say: its labels, its kind of problem."""

    @abstractmethod
    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        """Rows as columns → one feature a row, or several, answers included where the rows have them."""

    def ask(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        """Rows as columns → features to be answered; by default what `encode` gives for rows without answers."""
        return self.encode(rows, tokenizer, window)

    @abstractmethod
    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        """Features → one padded batch of tensors."""

    def vary(
        self, features: Sequence[Feature], tokenizer: Any, seed: int, epoch: int, epochs: int
    ) -> Sequence[Feature]:
        """Features as they are learned from in one epoch, the first being 0; by default the same in all.

        What is random here depends on the seed, the epoch and the feature alone, whoever shares its batch: so a
        training can go on from any step, and be shared by any number of processes.
        """
        return features

    def counts(self, batch: Mapping[str, Any]) -> dict[str, int]:
        """How many items the mean of a part of the loss is over, as words; a part not named is one over rows.

        A loss that is one number has one part, whose name is "".
        """
        return {}

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        """A loss of the task's own: a function of outputs and labels, the mean over a batch; None for the head's.

        A loss of several parts gives each by its name, the mean over what `counts` says; their sum is learned from.

        Args:
            smoothing: Share of the target spread over all labels.
        """
        if smoothing:
            raise RecipeError(
                f"training.label_smoothing: found {smoothing}, but {self.name} has no labels to spread it over"
            )
        return None

    def competing(self, outputs: Any, labels: Any) -> Any:
        """The logits that compete with one another, one row for each of the batch."""
        return outputs["logits"]

    def ready(self, model: Any, folder: Path | None) -> Any:
        """The model as the task uses it, with modules of the task's own where it has any.

        Args:
            folder: The model folder with their weights; None where they start from random numbers.
        """
        return model

    def restore(self, folder: Path | None) -> None:
        """Take up the tensors of the task's own that it answers with, where the model is in another engine's hands.

        Args:
            folder: A model folder, or one that `keep` wrote into; None where they start anew.
        """
        return

    def keep(self, folder: Path) -> None:
        """Write the tensors of the task's own that it answers with beside an exported model; none by default."""
        return

    def write(self, model: Any, tokenizer: Any, folder: Path) -> None:
        """Save model and tokenizer so that the library that has the head opens them."""
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    def hand_off(self, model: Any, window: Window, folder: Path) -> None:
        """Put files beside a saved model that make it open in another library than transformers; none by default."""
        return

    @property
    def arranges(self) -> bool:
        """Whether training rows are learned from otherwise than one by one as they stand: see `arrange`."""
        return False

    def arrange(
        self, columns: Mapping[str, Sequence[Any]], vectors: Callable[[Sequence[str], str], Any], seed: int
    ) -> tuple[list[int], dict[str, list[Any]], list[str]]:
        """Which training rows are learned from, further columns for those, each a list of texts, and what to tell.

        Args:
            vectors: Gives the vectors of texts, of the side `query` or `document`, by the encoder as it comes.
        """
        raise NotImplementedError

    def embedder(self, model: Any) -> Any:
        """A model that gives vectors, with the encoder of `model`."""
        raise NotImplementedError

    def searches(self, collection: bool) -> bool:
        """Whether rows are measured by a search among all documents, not each by itself.

        Args:
            collection: There are documents beside the rows.
        """
        return False

    def row(self, given: Any, number: int) -> Mapping[str, Any]:
        """What a user hands over as text `number`, as a row of the columns that are asked; else an error."""
        wanted = {"text", "pair"} if self.pair else {"text"}
        if isinstance(given, str | Mapping):
            row: Mapping[str, Any] = {"text": given} if isinstance(given, str) else given
        else:
            both = isinstance(given, Sequence) and len(given) == 2
            row = dict(zip(("text", "pair"), given, strict=True)) if both else {}
        if set(row) & {"text", "pair"} != wanted or not all(isinstance(row[name], str) for name in wanted):
            form = 'a pair of texts, as ("first", "second")' if self.pair else "one text, a string"
            raise DataError(f"text {number}: found {given!r}; this model reads {form}")
        if not row["text"].strip():
            raise DataError(f"text {number} is empty; expected text, as in a file")
        return row

    @property
    def example(self) -> Any:
        """A text in the form that `row` takes, to show people."""
        return [EXAMPLE, "Nobody wants it back."] if self.pair else EXAMPLE

    def asked(self, texts: Sequence[str]) -> list[Any]:
        """Texts one after the other, as a command line has them, in the form that `row` takes."""
        if not self.pair:
            return list(texts)
        if len(texts) % 2:
            raise RecipeError(f"predict: found {len(texts)} texts; this model reads pairs, so give them two by two")
        return list(zip(texts[::2], texts[1::2], strict=True))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of a row that `encode` is handed when it is answered."""
        return self.schema(self.options).questions().names

    def exam(self, row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
        """Row `number` of a table as it is asked when the model is measured; by default as it stands."""
        return row

    def read(self, outputs: Mapping[str, Any], features: Sequence[Feature]) -> list[Any]:
        """What a batch's outputs, tensors by name, say of each of its features; by default the answer."""
        return list(self.decode(outputs["logits"]))

    def decode(self, logits: Any) -> list[dict[str, Any]]:
        """A batch of logits → one plain answer a feature, for tasks whose `read` is just that."""
        raise NotImplementedError

    def merge(self, row: Mapping[str, Any], features: Sequence[Feature], parts: Sequence[Any]) -> dict[str, Any]:
        """A row's answer from what was read of its features."""
        found: dict[str, Any] = parts[0]
        return found

    @property
    def measured(self) -> tuple[str, ...]:
        """The columns that `measure` wants: the answers, and whatever else a metric looks at."""
        return self.schema(self.options).answers[:1]

    def measure(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """How good predictions are, given the rows' measured columns."""
        return self.metrics(columns[self.measured[0]], predictions)

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """How good predictions are, given the true answers, for tasks that need no other column."""
        raise NotImplementedError

    def scores(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> Sequence[float] | None:
        """How good each answer is by itself, from 0 to 1; None where that is plain from the answer beside the truth."""
        return None

    def confused(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
        """What the data says beside what the model gives, a pair for each thing that a confusion matrix counts."""
        if not self.likeliest:
            return []
        return [(str(answer), str(given["label"])) for answer, given in zip(answers, predictions, strict=True)]

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """Tables that say where errors of the task's own kind are; none by default.

        Args:
            columns: All that the rows hold; of rows that cannot be read again, the answers alone.
        """
        return []

    def tune(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> Self:
        """The task with what was chosen on dev rows, given the model's answers to them; that one is saved."""
        return self

    @property
    @abstractmethod
    def gives(self) -> dict[str, str]:
        """What an answer holds, by name: `text` (lists and mappings as JSON), a `number`, or a `whole` number."""

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], str]) -> None:
        """Refuse answers that this task has not learned; `where(i)` names the row of answer i."""
        return
