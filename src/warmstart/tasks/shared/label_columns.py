"""The columns of an answer that is a label or a number, hard or soft; imports no torch."""

from __future__ import annotations

from warmstart.data.schema import Column, ColumnKind

PROBABILITIES, VOTES = "probabilities", "votes"
_MEANING = "the probability of each label, instead of the label"
_VOTES = Column(
    VOTES,
    "votes",
    "the labels that annotators gave, instead of the label",
    answer=True,
    required=False,
    stored_as=PROBABILITIES,
)


def label_columns(kind: ColumnKind, meaning: str) -> tuple[Column, ...]:
    """The column of a hard answer, and the columns of soft labels from which it follows where they are given.

    Args:
        kind: `labels` for any number of them, which have no votes; `any` where it is not known yet which it is.
    """
    label = Column("label", kind, meaning, answer=True, follows_from=(PROBABILITIES, VOTES))
    each: ColumnKind = "marginals" if kind in {"labels", "any"} else "probabilities"
    soft = Column(PROBABILITIES, each, _MEANING, answer=True, required=False)
    return (label, soft) if kind == "labels" else (label, soft, _VOTES)
