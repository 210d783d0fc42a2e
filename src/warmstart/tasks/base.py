"""What a task is: columns, options, head, encode, collate, loss, decode and metrics, in one class of one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from warmstart.errors import DataError, RecipeError
from warmstart.options import Options
from warmstart.schema import Schema
from warmstart.windows import Window

OptionsT = TypeVar("OptionsT", bound=Options)
Feature = dict[str, Any]
"""One encoded example: token ids and whatever else the task's head wants.

Beside them stand `tokens` and `cut`: how many tokens the row has, and how many of them are nowhere seen. Where a row
has several features, each says by `of` which of the rows given it belongs to, and the first one counts the tokens.
"""


class Task(ABC, Generic[OptionsT]):
    """One kind of thing to learn, fitted to one data set (its labels, its options)."""

    name: ClassVar[str]
    options_class: ClassVar[type[Options]]
    auto_class: ClassVar[str]
    """The `transformers` Auto class whose head fits."""
    headline: str
    """The metric shown first."""
    own_windows: ClassVar[bool] = False
    """A long row is seen whole, in overlapping windows that are features of their own; answers are joined from them."""
    tunes: ClassVar[bool] = False
    """Whether there is something to choose on dev rows after training: see `tune`."""

    def __init__(self, options: OptionsT, pair: bool) -> None:
        self.options = options
        self.pair = pair

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

    @abstractmethod
    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        """Features → one padded batch of tensors."""

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        """A loss of the task's own: a function of outputs and labels, the mean over a batch; None for the head's.

        Args:
            smoothing: Share of the target spread over all labels.
        """
        if smoothing:
            raise RecipeError(f"learn.smoothing: found {smoothing}, but {self.name} has no labels to spread it over")
        return None

    def ready(self, model: Any, folder: Path | None) -> Any:
        """The model as the task uses it, with modules of the task's own where it has any.

        Args:
            folder: The model folder with their weights; None where they start from random numbers.
        """
        return model

    def write(self, model: Any, tokenizer: Any, folder: Path) -> None:
        """Save model and tokenizer so that the library that has the head opens them."""
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

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

    def tune(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> Self:
        """The task with what was chosen on dev rows, given the model's answers to them; that one is saved."""
        return self

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], str]) -> None:
        """Refuse answers that this task has not learned; `where(i)` names the row of answer i."""
        return
