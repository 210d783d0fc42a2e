"""The label map: names of the labels in a fixed order, the same whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from warmstart.errors import DataError, Location, ModelError, nearest
from warmstart.tasks.base import Answer

LABEL_ANSWER = {"label": "text", "probability": "number", "probabilities": "text"}
"""The fields of an answer with one label, as `Task.answer_schema` gives them."""


@dataclass(frozen=True)
class LabelMap:
    """Label names; a label's id is its index."""

    names: tuple[str, ...]

    @classmethod
    def from_labels(cls, labels: Iterable[str], least: int = 2) -> LabelMap:
        """Every label once, at `least` so many: whole numbers by size, anything else by code point."""
        names = set(labels)
        try:
            order = sorted(names, key=lambda name: (int(name), name))
        except ValueError:
            order = sorted(names)
        if len(order) < least:
            raise DataError(
                f"the training rows hold {len(order)} label{'' if len(order) == 1 else 's'} "
                f"({', '.join(map(repr, order)) or 'none'}); expected {least} or more; is --label the right column?",
                "label-one",
            )
        return cls(tuple(order))

    @classmethod
    def from_config(cls, id2label: Mapping[int, str]) -> LabelMap:
        """The labels as a model's config stores them."""
        if set(id2label) != set(range(len(id2label))):
            raise ModelError(f"id2label: found {str(id2label)[:80]!r}, expected a name for each number from 0 on")
        return cls(tuple(id2label[number] for number in range(len(id2label))))

    @cached_property
    def ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def config_kwargs(self) -> dict[str, object]:
        """What the model's config holds of it: the one place where the map is stored."""
        return {"num_labels": len(self), "id2label": dict(enumerate(self.names)), "label2id": dict(self.ids)}

    def answer(self, probabilities: Sequence[float]) -> Answer:
        """The answer that a probability for each label gives: the most probable, and all."""
        by_label = dict(zip(self.names, probabilities, strict=True))
        best = max(by_label, key=by_label.__getitem__)
        return {"label": best, "probability": by_label[best], "probabilities": by_label}

    def reused_for(self, data: LabelMap) -> LabelMap:
        """The map of a head that is reused, if the data has the very same labels."""
        if set(self.names) != set(data.names):
            only = {
                "the model": set(self.names) - set(data.names),
                "the data": set(data.names) - set(self.names),
            }
            differences = "; ".join(f"only {who} has {sorted(names)[:5]}" for who, names in only.items() if names)
            raise ModelError(
                f"the model has a head for other labels than the data: {differences}. "
                "Set head.reuse: false to start a new head"
            )
        return self

    def check(self, rows: Iterable[Iterable[str]], where: Callable[[int], Location]) -> None:
        """Refuse a label that is not in the map; `where(i)` names row i."""
        for index, labels in enumerate(rows):
            for label in labels:
                if label not in self.ids:
                    raise DataError(
                        f"label {label!r} was not seen in training, so the model has no output for it; "
                        f"{nearest(label, self.names)}",
                        "label-unseen",
                        location=where(index),
                    )
