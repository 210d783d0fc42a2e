"""What a task is: columns, options, head, encode, collate, loss, decode and metrics, in one class of one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from warmstart.errors import RecipeError
from warmstart.options import Options
from warmstart.schema import Schema
from warmstart.windows import Window

OptionsT = TypeVar("OptionsT", bound=Options)
Feature = dict[str, Any]
"""One encoded example: token ids and whatever else the task's head wants."""


class Task(ABC, Generic[OptionsT]):
    """One kind of thing to learn, fitted to one data set (its labels, its options)."""

    name: ClassVar[str]
    options_class: ClassVar[type[Options]]
    auto_class: ClassVar[str]
    """The `transformers` Auto class whose head fits."""
    headline: str
    """The metric shown first."""

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
        """Rows as columns → one feature a row, answers included where the rows have them."""

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

    @abstractmethod
    def decode(self, logits: Any) -> list[dict[str, Any]]:
        """A batch of logits → one plain answer a row."""

    @abstractmethod
    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """How good predictions are, given the true answers."""

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], str]) -> None:
        """Refuse answers that this task has not learned; `where(i)` names the row of answer i."""
        return
