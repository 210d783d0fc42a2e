"""Labels that look like misspellings of a frequent one: `Kate` beside `Karte`, `Ueberweisung` beside `Überweisung`."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from warmstart.data.split import fold_text

MIN_RATIO = 20
"""How many times as many rows the frequent label has: two labels of a kind differ by less, a typing error by more."""
MAX_LABELS = 2_000
"""Beyond so many labels, they are not compared: they are probably no labels."""
SHORT, LONG = 4, 8
"""The length from which on one typing error is looked for, and two."""
_TRANSLITERATIONS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe", "å": "aa", "œ": "oe", "ł": "l", "đ": "d"}
)
_PARTS = re.compile(r"[\W_]+")


def misspellings(counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield labels that are probably misspelt, each with the label that is probably meant.

    Args:
        counts: The number of rows of each label.
    """
    if len(counts) > MAX_LABELS:
        return
    frequent = sorted(counts, key=lambda label: (-counts[label], label))
    plain = {label: _plain(label) for label in counts}
    folded = {label: fold_text(label) for label in counts}
    for rare in reversed(frequent):
        for label in frequent:
            if counts[label] <= counts[rare]:
                break
            if folded[label] == folded[rare]:  # which differ in case or width only, another finding
                continue
            likely = counts[label] >= MIN_RATIO * counts[rare]
            if plain[label] == plain[rare] or (likely and _is_typing_error(plain[rare], plain[label])):
                yield rare, label
                break


def _plain(label: str) -> str:
    """A label in lower case with ASCII letters as far as there is a usual way to write it so."""
    text = unicodedata.normalize("NFC", label).casefold().translate(_TRANSLITERATIONS)
    return "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char)).strip()


def _is_typing_error(rare: str, label: str) -> bool:
    """Whether one word differs by a letter, or by two in a long one; digits that differ are meant."""
    if _digits(rare) != _digits(label):
        return False
    words, others = _PARTS.split(rare), _PARTS.split(label)
    if len(words) == len(others):  # as in card_arrival and card_arival: the word that differs decides
        pairs = [(one, other) for one, other in zip(words, others, strict=True) if one != other]
        if len(pairs) != 1:
            return False
        [(rare, label)] = pairs
    most = (len(label) >= SHORT) + (len(label) >= LONG)
    return abs(len(rare) - len(label)) <= most and _edits(rare, label) <= most


def _digits(text: str) -> list[str]:
    return [char for char in text if char.isdigit()]


def _edits(one: str, other: str) -> int:
    """How many letters were typed wrong, two that changed places counting once."""
    if len(one) == len(other) and Counter(one) == Counter(other):
        places = [at for at, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
        if len(places) == 2 and places[1] == places[0] + 1:
            return 1
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(end - start, to - begin) for name, start, end, begin, to in blocks if name != "equal")
