"""Tag schemes: which tags may follow one another, and the entities that a row of tags says. Pure functions on tags.

A tag is `O`, or a prefix, a dash and a type, as `B-PER`. The prefixes say where in its entity a word stands:

    IOB1    I inside; B only where an entity follows one of the same type
    BIO     B the first word, I every other (also called IOB2)
    IOBES   B first, I inside, E last, S an entity of one word
    BILOU   the same with L for E and U for S

So an `I-` that begins an entity is right in IOB1 and wrong in BIO: a file must be read in its own scheme.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

Scheme = Literal["IOB1", "BIO", "IOBES", "BILOU"]
Span = tuple[int, int, str]
"""The first word of an entity, the one after its last, and its type."""

OUTSIDE = "O"
PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}
STRAY = 0.01
"""An IOB1 file may hold so many `B-` that need not be, for each `I-` that begins an entity: they say the same."""
_AS_IOBES = {"L": "E", "U": "S"}


def split(tag: str) -> tuple[str, str]:
    """The prefix and the type of a tag; of `O` itself and nothing."""
    prefix, _, kind = tag.partition("-")
    return prefix, kind


def tags_of(scheme: Scheme, kinds: Iterable[str]) -> list[str]:
    """Every tag there is, `O` first."""
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in PREFIXES[scheme])]


@lru_cache(maxsize=1 << 16)
def fault(scheme: Scheme, before: str, tag: str | None) -> str:
    """What is wrong with a tag after another one, or nothing.

    Args:
        before: The tag of the word before, `O` at the start of a sentence.
        tag: None for the end of a sentence.
    """
    prefix, kind = split(tag or OUTSIDE)
    if prefix != OUTSIDE and prefix not in PREFIXES[scheme]:
        return f"{tag} is no tag of {scheme}"
    last, same = before[0], split(before)[1] == kind
    if scheme == "BIO":
        return f"{tag} after {before}" if prefix == "I" and not same else ""
    if scheme == "IOB1":
        return f"{tag} after {before}" if prefix == "B" and not same else ""
    opened = last in "BI"
    if opened == (prefix in "IEL") and (same or not opened):
        return ""
    return f"{before} at the end of a sentence" if tag is None else f"{tag} after {before}"


def spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """The entities in a row of tags, none where tags break the scheme: what seqeval finds in its strict mode.

    So in BIO an `I-` that follows no `B-` or `I-` of its type is no part of an entity, and in IOBES what is begun and
    not ended is none.
    """
    found: list[Span] = []
    start = -1
    for place, tag in enumerate([*tags, OUTSIDE]):
        before = tags[place - 1] if place else OUTSIDE
        prefix, kind = split(tag)
        prefix = _AS_IOBES.get(prefix, prefix)
        inside = prefix in "IE" and start >= 0 and split(before)[1] == kind
        if start >= 0 and not inside:
            if scheme in {"BIO", "IOB1"}:
                found.append((start, place, split(before)[1]))
            start = -1
        if prefix == "B" or (prefix == "I" and scheme == "IOB1" and start < 0):
            start = place
        elif prefix == "S":
            found.append((place, place + 1, kind))
        elif prefix == "E" and inside:
            found.append((start, place + 1, kind))
            start = -1
    return found


def tags(spans: Iterable[Span], length: int, scheme: Literal["BIO", "IOBES"]) -> list[str]:
    """A tag for each of so many words, saying these entities."""
    found = [OUTSIDE] * length
    for start, end, kind in spans:
        found[start:end] = [f"I-{kind}"] * (end - start)
        found[start] = f"B-{kind}"
        if scheme == "IOBES":
            found[end - 1] = f"{'E' if end - start > 1 else 'S'}-{kind}"
    return found


class Detector:
    """Finds the scheme of a file, told every tag in order: that which the fewest tags contradict."""

    def __init__(self) -> None:
        self.before = OUTSIDE
        self.faults: Counter[Scheme] = Counter()
        self.first: dict[Scheme, tuple[int, str]] = {}
        """Where each scheme is contradicted first, and how."""
        self._line = 0

    def look(self, tag: str | None, line: int = 0) -> None:
        """Look at the tag in a line, or at the end of a sentence."""
        for scheme in PREFIXES:
            if what := fault(scheme, self.before, tag):
                self.faults[scheme] += 1
                self.first.setdefault(scheme, (self._line if tag is None else line, what))
        self.before, self._line = tag or OUTSIDE, line

    @property
    def scheme(self) -> Scheme:
        """The scheme that the fewest tags contradict; BIO where all are `O`."""
        return min(PREFIXES, key=lambda scheme: self.faults[scheme])

    @property
    def fits(self) -> bool:
        """Whether the file is in the scheme."""
        scheme = self.scheme
        # A B- always begins an entity, so in IOB1 one that need not be is no contradiction; every I- that begins an
        # entity contradicts BIO.
        return self.faults[scheme] <= (STRAY * self.faults["BIO"] if scheme == "IOB1" else 0)
