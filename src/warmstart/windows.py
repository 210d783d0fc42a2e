"""Which tokens of a text the encoder sees, and the special tokens around them: pure functions on token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Window:
    """The most tokens the encoder sees, special ones included, and which part of a longer text they are."""

    tokens: int
    keep: str = "head"


@dataclass(frozen=True)
class Frame:
    """The special tokens a tokenizer puts before, between and after texts, with their segment numbers.

    Learned by asking the tokenizer once, so that a window can be cut from plain ids for any architecture.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, ...] | None
    """Segment of: before, first text, between, second text, after. None where the encoder has no segments."""

    @classmethod
    def of(cls, tokenizer: Any, pair: bool) -> Frame:
        """Ask a tokenizer how it frames one text, or a pair."""
        texts = ("a", "a") if pair else ("a",)
        framed = tokenizer(*texts, add_special_tokens=True)
        inner = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        ids: list[int] = framed["input_ids"]
        first = _find(ids, inner[0], 0)
        end = first + len(inner[0])
        second = _find(ids, inner[1], end) if pair else end
        last = second + (len(inner[1]) if pair else 0)
        types = None
        if "token_type_ids" in framed:
            segment = framed["token_type_ids"]
            spans = [(0, first), (first, end), (end, second), (second, last), (last, len(ids))]
            types = tuple(segment[start] if start < stop else 0 for start, stop in spans)
        return cls(tuple(ids[:first]), tuple(ids[end:second]), tuple(ids[last:]), types)

    @property
    def size(self) -> int:
        """How many special tokens there are."""
        return len(self.before) + len(self.between) + len(self.after)

    def put_around(self, first: Sequence[int], second: Sequence[int] = ()) -> dict[str, list[int]]:
        """The ids the encoder gets, and their segments where it has any."""
        parts = (self.before, first, self.between, second, self.after)
        out = {"input_ids": [token for part in parts for token in part]}
        if self.types is not None:
            out["token_type_ids"] = [
                kind for kind, part in zip(self.types, parts, strict=True) for _ in range(len(part))
            ]
        return out


def room(window: Window, frame: Frame, first: int, second: int = 0) -> tuple[int, int]:
    """How many tokens of two texts fit: the longer one gives way first, then both alike."""
    budget = max(window.tokens - frame.size, 0)
    if first + second <= budget:
        return first, second
    shorter = min(first, second, budget // 2)
    longer = budget - shorter
    return (longer, shorter) if first > second else (shorter, longer)


def keep(ids: Sequence[int], count: int) -> Sequence[int]:
    """The head of a text, `count` tokens of it."""
    return ids[:count]


def _find(ids: Sequence[int], inner: Sequence[int], start: int) -> int:
    """Where `inner` begins in `ids`, from `start` on."""
    for index in range(start, len(ids) - len(inner) + 1):
        if list(ids[index : index + len(inner)]) == list(inner):
            return index
    raise ValueError(f"the tokenizer gives {list(ids)}, which does not hold its own pieces {list(inner)}")
