"""Tag schemes: which tags may follow one another, and the entities that a sequence of tags encodes. Pure functions.

A tag is `O`, or a prefix, a dash and a type, as `B-PER`. The prefix tells the position of a word in its entity:

    IOB1    I inside; B only where an entity directly follows one of the same type
    BIO     B the first word, I every other (also called IOB2)
    IOBES   B first, I inside, E last, S an entity of one word
    BILOU   the same with L for E and U for S

So an `I-` that begins an entity is valid in IOB1 and invalid in BIO: a file must be read in its own scheme.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

Scheme = Literal["IOB1", "BIO", "IOBES", "BILOU"]
EntitySpan = tuple[int, int, str]
"""The first word of an entity, the one after its last, and its type."""

OUTSIDE = "O"
PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}
MAX_REDUNDANT = 0.01
"""How many redundant `B-` an IOB1 file may hold for each `I-` that begins an entity: they mean the same."""
_AS_IOBES = {"L": "E", "U": "S"}


def split_tag(tag: str) -> tuple[str, str]:
    """The prefix and the type of a tag; `O` has an empty type."""
    prefix, _, kind = tag.partition("-")
    return prefix, kind


def all_tags(scheme: Scheme, kinds: Iterable[str]) -> list[str]:
    """Every tag of a scheme for these entity types, `O` first."""
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in PREFIXES[scheme])]


@lru_cache(maxsize=1 << 16)
def transition_fault(scheme: Scheme, before: str, tag: str | None) -> str:
    """What is wrong with a tag after another one; empty where the transition is valid.

    Args:
        before: The tag of the word before, `O` at the start of a sentence.
        tag: None for the end of a sentence.
    """
    prefix, kind = split_tag(tag or OUTSIDE)
    if prefix != OUTSIDE and prefix not in PREFIXES[scheme]:
        return f"{tag} is not a tag of {scheme}"
    last, same = before[0], split_tag(before)[1] == kind
    if scheme == "BIO":
        return f"{tag} after {before}" if prefix == "I" and not same else ""
    if scheme == "IOB1":
        return f"{tag} after {before}" if prefix == "B" and not same else ""
    opened = last in "BI"
    if opened == (prefix in "IEL") and (same or not opened):
        return ""
    return f"{before} at the end of a sentence" if tag is None else f"{tag} after {before}"


def tags_to_spans(tags: Sequence[str], scheme: Scheme) -> list[EntitySpan]:
    """The entities in a sequence of tags, without those that break the scheme: what seqeval finds in its strict mode.

    So in BIO an `I-` that follows no `B-` or `I-` of its type is not part of an entity, and in IOBES an entity that
    is begun and not ended does not count.
    """
    entities: list[EntitySpan] = []
    start = -1
    for position, tag in enumerate([*tags, OUTSIDE]):
        before = tags[position - 1] if position else OUTSIDE
        prefix, kind = split_tag(tag)
        prefix = _AS_IOBES.get(prefix, prefix)
        inside = prefix in "IE" and start >= 0 and split_tag(before)[1] == kind
        if start >= 0 and not inside:
            if scheme in {"BIO", "IOB1"}:
                entities.append((start, position, split_tag(before)[1]))
            start = -1
        if prefix == "B" or (prefix == "I" and scheme == "IOB1" and start < 0):
            start = position
        elif prefix == "S":
            entities.append((position, position + 1, kind))
        elif prefix == "E" and inside:
            entities.append((start, position + 1, kind))
            start = -1
    return entities


def spans_to_tags(spans: Iterable[EntitySpan], length: int, scheme: Literal["BIO", "IOBES"]) -> list[str]:
    """A tag for each of `length` words that together encode these entities."""
    tags = [OUTSIDE] * length
    for start, end, kind in spans:
        tags[start:end] = [f"I-{kind}"] * (end - start)
        tags[start] = f"B-{kind}"
        if scheme == "IOBES":
            tags[end - 1] = f"{'E' if end - start > 1 else 'S'}-{kind}"
    return tags


class SchemeDetector:
    """Detects the scheme of a file from all of its tags in order: the one that the fewest tags contradict."""

    def __init__(self) -> None:
        self.before = OUTSIDE
        self.faults: Counter[Scheme] = Counter()
        self.first: dict[Scheme, tuple[int, str]] = {}
        """The line where each scheme is contradicted first, and how."""
        self._line = 0

    def observe(self, tag: str | None, line: int = 0) -> None:
        """Take the tag of a line, or None at the end of a sentence."""
        for scheme in PREFIXES:
            if fault := transition_fault(scheme, self.before, tag):
                self.faults[scheme] += 1
                self.first.setdefault(scheme, (self._line if tag is None else line, fault))
        self.before, self._line = tag or OUTSIDE, line

    @property
    def scheme(self) -> Scheme:
        """The scheme that the fewest tags contradict; BIO where all are `O`."""
        return min(PREFIXES, key=lambda scheme: self.faults[scheme])

    @property
    def fits(self) -> bool:
        """Whether all tags of the file are in the scheme."""
        scheme = self.scheme
        # A B- always begins an entity, so a redundant one is no contradiction in IOB1; every I- that begins an entity
        # contradicts BIO.
        return self.faults[scheme] <= (MAX_REDUNDANT * self.faults["BIO"] if scheme == "IOB1" else 0)
