"""The label map: names of the labels in a fixed order, the same whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warmstart.errors import DataError, ModelError, nearest

CHOSEN = {"label": "text", "probability": "number", "probabilities": "text"}
"""What the answer of one label holds, as `Task.gives` says it."""


@dataclass(frozen=True)
class LabelMap:
    """Label names; a label's id is its place."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, labels: Iterable[str], least: int = 2) -> LabelMap:
        """Every label once, at `least` so many: whole numbers by size, anything else by code point."""
        found = set(labels)
        try:
            order = sorted(found, key=lambda name: (int(name), name))
        except ValueError:
            order = sorted(found)
        if len(order) < least:
            raise DataError(
                f"the training rows hold {len(order)} label{'' if len(order) == 1 else 's'} "
                f"({', '.join(map(repr, order)) or 'none'}); expected {least} or more; is --label the right column?",
                "label-one",
            )
        return cls(tuple(order))

    @classmethod
    def of_config(cls, id2label: Mapping[int, str]) -> LabelMap:
        """The labels as a model's config stores them."""
        return cls(tuple(id2label[number] for number in range(len(id2label))))

    @cached_property
    def ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def config(self) -> dict[str, object]:
        """What the model's config must say: the one place where the map is stored."""
        return {"num_labels": len(self), "id2label": dict(enumerate(self.names)), "label2id": dict(self.ids)}

    def answer(self, chances: Sequence[float]) -> dict[str, Any]:
        """The answer that a probability for each label gives: the likeliest, and all."""
        by_label = dict(zip(self.names, chances, strict=True))
        best = max(by_label, key=by_label.__getitem__)
        return {"label": best, "probability": by_label[best], "probabilities": by_label}

    def same_as(self, data: LabelMap) -> LabelMap:
        """Give back this map, a kept head's, if the data has the very same labels."""
        if set(self.names) != set(data.names):
            only = {
                "the model": set(self.names) - set(data.names),
                "the data": set(data.names) - set(self.names),
            }
            found = "; ".join(f"only {who} has {sorted(names)[:5]}" for who, names in only.items() if names)
            raise ModelError(
                f"the model has a head for other labels than the data: {found}. Say `head: new` to start one"
            )
        return self

    def check(self, rows: Iterable[Iterable[str]], where: Callable[[int], str]) -> None:
        """Refuse a label that is not in the map; `where(i)` names row i."""
        for index, labels in enumerate(rows):
            for label in labels:
                if label not in self.ids:
                    raise DataError(
                        f"{where(index)}: label {label!r} was not seen in training, so the model has no output for it; "
                        f"{nearest(label, self.names)}",
                        "label-unseen",
                    )
