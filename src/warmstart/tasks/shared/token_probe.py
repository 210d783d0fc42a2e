"""A head over every token that a linear model solves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class HasTokenProbe(Protocol):
    """May have a linear head over each token; the `labels` of an encoded row are those of its tokens."""

    @property
    def ignored_label(self) -> int:
        """The label of a token that is not scored."""
        ...

    @property
    def scores_tokens_apart(self) -> bool:
        """Whether the logits of a token are all that its label depends on, so that a linear model solves the head."""
        ...


def has_token_probe(task: object) -> bool:
    """Whether a linear model solves the head of a task token by token."""
    return isinstance(task, HasTokenProbe) and task.scores_tokens_apart
