"""Which tokens of a text the encoder sees, and the special tokens around them: pure functions on token ids.

The methods are those of Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", §5.3.1: of a text that is
too long, the encoder sees the `head`, the `tail` or both (`head+tail`), or all of it in `slices`, whose vectors the
model pools.

What is seen is given as ranges of token indices, so that the same ranges can be taken from ids and from offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

METHODS = ("head", "tail", "head+tail", "slices")
HEAD, ROOM = 128, 510
"""The split of `head+tail` in the paper: the first 128 and the last 382 of 510 tokens."""
DEFAULT_TOKENS = 512
"""The widest window used by default: the cost of attention grows with its square."""

Range = tuple[int, int]
"""Indices of tokens in a text, from the first to before the last."""
View = tuple[tuple[Range, ...], tuple[Range, ...]]
"""What one row of the encoder's input shows of the first text, and of the second."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Window:
    """How many tokens the encoder sees at once, including special tokens, and which part of a longer text it sees.

    Args:
        method: `head`, `tail`, `head+tail` or `slices`.
        head_tokens: With `head+tail`, how many tokens of a text are its head; None for 128 of 510, rounded up.
        overlap: With `slices`, how many tokens neighbouring slices share.
        max_slices: With `slices`, the maximum number of slices per text; None for all.
        prompt: What is put before every text, as its beginning: its tokens count, and are cut, like those of the text.

    Raises:
        ValueError: Settings that contradict each other.
    """

    max_tokens: int
    method: str = "head"
    head_tokens: int | None = None
    overlap: int = 0
    max_slices: int | None = None
    prompt: str = ""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: found {self.method!r}, expected one of {', '.join(METHODS)}")
        for name, kind, unset in (
            ("head_tokens", "head+tail", None),
            ("overlap", "slices", 0),
            ("max_slices", "slices", None),
        ):
            if getattr(self, name) != unset and self.method != kind:
                raise ValueError(
                    f"{name}: found {getattr(self, name)}, but method is {self.method}; "
                    f"set method: {kind}, or leave {name} out"
                )
        for name, least in (("max_tokens", 1), ("head_tokens", 1), ("overlap", 0), ("max_slices", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: found {value}, expected {least} or more")

    def check(self, frame: Frame, pair: bool) -> None:
        """Refuse a window that leaves no room for text beside the special tokens, or for its tail or next slice.

        Raises:
            ValueError: Names the setting, its value and what it leaves no room for.
        """
        budget = self.max_tokens - frame.size
        if budget < 1 + pair:
            raise ValueError(
                f"max_tokens: found {self.max_tokens}, of which {frame.size} are special ones; that leaves no text"
            )
        # The text that is truncated first keeps at least this much.
        least = budget // 2 if pair else budget
        for name, value in (("head_tokens", self.head_tokens or 0), ("overlap", self.overlap)):
            if value >= least:
                of = "a text of a pair" if pair else "a text"
                left = "that leaves no tail" if name == "head_tokens" else "slices would not advance"
                raise ValueError(f"{name}: found {value}, but {self.max_tokens} tokens show {least} of {of}; {left}")

    def summary(self) -> str:
        """The window in words, such as `head of 512 tokens`."""
        details = {"first": self.head_tokens, "overlap": self.overlap or None, "at most": self.max_slices}
        return ", ".join(
            [
                f"{self.method} of {self.max_tokens} tokens",
                *(f"{name} {value}" for name, value in details.items() if value),
                *([f'prompt "{self.prompt}"'] if self.prompt else []),
            ]
        )


@dataclass(frozen=True)
class Frame:
    """The special tokens a tokenizer adds before, between and after texts, with their token type ids.

    Taken once from what the tokenizer does, so that a window can be cut from plain ids for any architecture.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, ...] | None
    """Token type of: before, first text, between, second text, after. None where the encoder has none."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, pair: bool) -> Frame:
        """How a tokenizer frames one text, or a pair."""
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
        """`input_ids` as the encoder gets them, and `token_type_ids` where it has any."""
        parts = (self.before, first, self.between, second, self.after)
        out = {"input_ids": list(chain(*parts))}
        if self.types is not None:
            segments = ([segment] * len(part) for segment, part in zip(self.types, parts, strict=True))
            out["token_type_ids"] = list(chain(*segments))
        return out


@dataclass
class Truncation:
    """How much of the texts was truncated, summed over rows; tokens are the texts' own, without special ones."""

    rows: int = 0
    rows_cut: int = 0
    tokens: int = 0
    tokens_cut: int = 0

    def add(self, feature: Mapping[str, Any]) -> None:
        """Count one encoded row."""
        self.rows += 1
        self.rows_cut += feature["cut"] > 0
        self.tokens += feature["tokens"]
        self.tokens_cut += feature["cut"]

    def since(self, before: Truncation) -> Truncation:
        """What was added since an earlier copy."""
        return Truncation(**{name: value - getattr(before, name) for name, value in asdict(self).items()})

    @property
    def share(self) -> float:
        """The share of tokens that the encoder does not see."""
        return self.tokens_cut / max(self.tokens, 1)

    def summary(self, window: Window, more: str = "") -> str:
        """What was truncated, as a sentence."""
        longer = f"{self.rows_cut:,} of {self.rows:,} rows are longer than the window ({window.summary()}){more}"
        return f"{longer}; {self.share:.1%} of all tokens are not seen"


def apply_window(
    window: Window, frame: Frame, first: Sequence[int], second: Sequence[int] | None = None
) -> dict[str, Any]:
    """One text, or a pair, as the encoder gets it: `input_ids`, and `token_type_ids` where there are any.

    With `slices`, each is a list of lists, one per slice. In addition there are `tokens`, how many tokens the texts
    have, and `cut`, how many of those the encoder does not see.
    """
    shown = views(window, frame, len(first), None if second is None else len(second))
    rows = [frame.put_around(take_ranges(first, a), take_ranges(second or (), b)) for a, b in shown]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    total = len(first) + len(second or ())
    seen = sum(count_covered(span for view in shown for span in view[text]) for text in (0, 1))
    return {**(columns if window.method == "slices" else rows[0]), "tokens": total, "cut": total - seen}


def views(window: Window, frame: Frame, first: int, second: int | None = None) -> list[View]:
    """What each row of the encoder's input shows of a text of `first` tokens, or of a pair.

    Where a pair is too long for `slices`, the second text is sliced, and the head of the first is repeated in each
    slice: at most half of the room, or all that a second text leaves which fits whole.
    """
    budget = max(window.max_tokens - frame.size, 0)
    if window.method != "slices":
        rooms = fit_pair(window, frame, first, second or 0)
        a, b = (
            keep_ranges(length, room, window.method, window.head_tokens)
            for length, room in zip((first, second or 0), rooms, strict=True)
        )
        return [(a, b)]
    if second is None:
        return [(_filled(part), ()) for part in slices(first, budget, window.overlap, window.max_slices)]
    head = min(first, max(budget // 2, budget - second))
    rest = slices(second, budget - head, window.overlap, window.max_slices)
    return [(_filled((0, head)), _filled(part)) for part in rest]


def fit_pair(window: Window, frame: Frame, first: int, second: int = 0) -> tuple[int, int]:
    """How many tokens of each of two texts fit: the longer one is truncated first, then both equally."""
    budget = max(window.max_tokens - frame.size, 0)
    if first + second <= budget:
        return first, second
    shorter = min(first, second, budget // 2)
    longer = budget - shorter
    return (longer, shorter) if first > second else (shorter, longer)


def keep_ranges(length: int, room: int, method: str, head_tokens: int | None = None) -> tuple[Range, ...]:
    """Which tokens of a text of `length` are kept if `room` of them fit.

    Args:
        method: `head`, `tail` or `head+tail`.
        head_tokens: How many belong to the head with `head+tail`; None for the paper's share of the room, rounded up.
    """
    if length <= room:
        return _filled((0, length))
    if method == "head+tail":
        split = min(-(-room * HEAD // ROOM) if head_tokens is None else head_tokens, room)
    else:
        split = room if method == "head" else 0
    return _filled((0, split), (length - room + split, length))


def ranges_around(length: int, room: int, first: Range, second: Range) -> tuple[Range, ...]:
    """Which tokens of a text are kept where `room` of them fit, at least 4, and two spans of it must be seen.

    Everything between the two is kept if it fits, and the remaining room is shared by both sides. Otherwise the text is
    cut between them, and the remaining room is shared by both sides of each. Where the two alone do not fit, the last
    token of each is kept, and as many of its first ones as there is room for.

    Args:
        first: The span that comes first.
    """
    if length <= room:
        return _filled((0, length))
    (a, b), (c, d) = first, second
    own = _shares(room, (b - a, d - c))
    if sum(own) < b - a + d - c:
        cut = []
        for (start, end), size in zip((first, second), own, strict=True):
            cut += [(start + low, start + high) for low, high in keep_ranges(end - start, size, "head+tail", size - 1)]
        return tuple(cut)
    if d - a <= room:
        left, right = _shares(room - (d - a), (a, length - d))
        return ((a - left, d + right),)
    half = (c - b) // 2
    left, after, before, right = _shares(room - sum(own), (a, half, c - b - half, length - d))
    return (a - left, b + after), (c - before, d + right)


def slices(length: int, room: int, overlap: int = 0, max_slices: int | None = None) -> list[Range]:
    """Consecutive slices of a text, `room` tokens each, neighbours sharing `overlap`; the last one is what remains."""
    if length <= room:
        return [(0, length)]
    if overlap >= room:
        raise ValueError(f"overlap: found {overlap}, but a slice shows {room} tokens; expected fewer")
    # A slice that would begin in the last `overlap` tokens shows nothing new.
    starts = range(0, length - overlap, room - overlap)[:max_slices]
    return [(start, min(start + room, length)) for start in starts]


def take_ranges(items: Sequence[Item], ranges: Iterable[Range]) -> list[Item]:
    """The items in the ranges, in their order: of a text's ids, of its offsets, of anything with one item per token."""
    return list(chain.from_iterable(items[start:stop] for start, stop in ranges))


def count_covered(ranges: Iterable[Range]) -> int:
    """How many tokens lie in at least one of the ranges."""
    count = end = 0
    for start, stop in sorted(ranges):
        count += max(stop - max(start, end), 0)
        end = max(end, stop)
    return count


def _shares(room: int, wanted: Sequence[int]) -> list[int]:
    """Room divided evenly, none getting more than it wants."""
    shares = [0] * len(wanted)
    waiting = len(wanted)
    for index in sorted(range(len(wanted)), key=wanted.__getitem__):
        shares[index] = min(wanted[index], -(-room // waiting))
        room -= shares[index]
        waiting -= 1
    return shares


def _filled(*ranges: Range) -> tuple[Range, ...]:
    """The ranges that are not empty."""
    return tuple((start, stop) for start, stop in ranges if start < stop)


def _find(ids: Sequence[int], inner: Sequence[int], start: int) -> int:
    """Where `inner` begins in `ids`, from `start` on."""
    for index in range(start, len(ids) - len(inner) + 1):
        if list(ids[index : index + len(inner)]) == list(inner):
            return index
    raise ValueError(f"the tokenizer gives {list(ids)}, which does not contain its own tokens {list(inner)}")
