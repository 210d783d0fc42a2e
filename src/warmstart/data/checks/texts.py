"""Texts looked at one by one: odd characters, words for nothing, lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from warmstart.data.checks.characters import ANY, BIDI, NON_ASCII, Pattern, unclosed
from warmstart.data.checks.collector import Sightings, shown

FEW = 20
"""Below so many rows, what all rows have in common says little."""
START = 10
"""Characters that all texts begin with from which on it is told."""
FAR, LONG = 20, 1000
"""A text is far longer than the others past so many times their median, and so many characters."""
SAME, SHARE, SHORTEST = 10, 0.01, 100
"""Texts were cut before if so many, and such a share, have exactly the greatest length, and it is no short one."""


def check_texts(seen: Sightings, columns: Sequence[str]) -> None:
    """Look at every text of these columns, a batch at a time."""
    for name in columns:
        lengths: list[Any] = []
        start: str | None = None
        row = 0
        for (array,) in seen.table.arrays([name]):
            _characters(seen, name, array, row)
            lengths.append(pc.utf8_length(array).to_numpy(zero_copy_only=False))
            if start != "":
                start = _start([*array.to_pylist(), *([] if start is None else [start])])
            row += len(array)
        _lengths(seen, name, np.concatenate(lengths))
        if start and len(start) >= START and row >= FEW:
            seen.see("same-start", 0, f"{name!r}: all {row:,} texts start with {shown(start)}")
    if len(columns) > 1:
        _pairs(seen, columns)


def _characters(seen: Sightings, name: str, array: Any, row: int) -> None:
    """Look for every pattern; those past ASCII only in texts that are."""
    for pattern in ANY:
        _look(seen, name, pattern, array, np.arange(row, row + len(array)))
    odd = np.flatnonzero(~pc.string_is_ascii(array).to_numpy(zero_copy_only=False))
    if not len(odd):
        return
    array, rows = array.take(odd), odd + row
    for pattern in NON_ASCII:
        _look(seen, name, pattern, array, rows)
    composed = pc.utf8_normalize(array, form="NFC")
    other = _true(pc.not_equal(composed, array))
    seen.see_all(
        "not-nfc", rows[other], lambda _: f"{name!r} is not in form NFC: {shown(array[int(other[0])].as_py())}"
    )
    for place in _true(pc.match_substring_regex(array, BIDI.regex)):
        text = array[int(place)].as_py()
        if unclosed(text):
            seen.see(BIDI.kind, rows[place], f"{name!r} {BIDI.words}: {shown(BIDI.around(text))}")


def _look(seen: Sightings, name: str, pattern: Pattern, array: Any, rows: Any) -> None:
    places = _true(pc.match_substring_regex(array, pattern.regex))
    if len(places):
        text = array[int(places[0])].as_py()
        seen.see_all(pattern.kind, rows[places], lambda _: f"{name!r} {pattern.words}: {shown(pattern.around(text))}")


def _lengths(seen: Sightings, name: str, lengths: Any) -> None:
    """Tell of texts far longer than the others, and of many that end at one length."""
    median, most = int(np.median(lengths)), int(lengths.max())
    far = np.flatnonzero((lengths > FAR * median) & (lengths > LONG))
    half = f"half of the texts have {median:,} or fewer"
    seen.see_all("text-long", far, lambda row: f"{name!r} has {lengths[row]:,} characters; {half}")
    ends = np.flatnonzero(lengths == most)
    enough = max(SAME, SHARE * len(lengths))
    # One text that many rows share, as questions do a context, is no sign of cutting.
    if most >= SHORTEST and len(ends) >= enough and len(set(map(hash, seen.table.select(ends).column(name)))) >= enough:
        what = f"{name!r}: {len(ends):,} texts have exactly {most:,} characters, and none has more: cut before?"
        seen.see("cut-before", int(ends[0]), what)


def _pairs(seen: Sightings, columns: Sequence[str]) -> None:
    row = 0
    for first, second in seen.table.arrays(columns[:2]):
        same = _true(pc.equal(first, second)) + row
        seen.see_all("pair-same", same, lambda _: f"{columns[0]!r} and {columns[1]!r} are the same")
        row += len(first)


def _start(texts: list[str]) -> str:
    """What all texts start with: what the first and the last by order have in common."""
    low, high = min(texts), max(texts)
    same = next((place for place, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    return low[:same]


def _true(mask: Any) -> Any:
    """Places where an Arrow array of booleans is true."""
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))
