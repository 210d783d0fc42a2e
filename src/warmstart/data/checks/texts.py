"""Checks of each text: odd characters, placeholders such as NA, lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warmstart.data.checks.characters import ANY, BIDI, NON_ASCII, Pattern, unclosed
from warmstart.data.checks.collector import FindingCollector, shown
from warmstart.data.table import Indices

MIN_ROWS = 20
"""With fewer rows, what all rows have in common means little."""
MIN_PREFIX = 10
"""How many first characters all texts must share to be reported."""
LONG_RATIO, LONG_CHARACTERS = 20, 1000
"""A text is far longer than the others beyond this many times their median, and this many characters."""
CUT_ROWS, CUT_SHARE, CUT_CHARACTERS = 10, 0.01, 100
"""Texts were probably truncated before if this many, and this share, have exactly the greatest length, if it is not
shorter than this."""


def check_texts(collector: FindingCollector, columns: Sequence[str]) -> None:
    """Check every text of these columns, a batch at a time."""
    for name in columns:
        lengths: list[Indices] = []
        prefix: str | None = None
        row = 0
        for (array,) in collector.table.arrays([name]):
            _check_characters(collector, name, array, row)
            lengths.append(pc.utf8_length(array).to_numpy(zero_copy_only=False))
            if prefix != "":
                prefix = _common_prefix([*array.to_pylist(), *([] if prefix is None else [prefix])])
            row += len(array)
        _check_lengths(collector, name, np.concatenate(lengths))
        if prefix and len(prefix) >= MIN_PREFIX and row >= MIN_ROWS:
            collector.add_row("same-start", 0, f"{name!r}: all {row:,} texts start with {shown(prefix)}")
    if len(columns) > 1:
        _check_pairs(collector, columns)


def _check_characters(collector: FindingCollector, name: str, array: pa.Array, row: int) -> None:
    """Search for every pattern; those beyond ASCII only in texts that are not plain ASCII."""
    for pattern in ANY:
        _search(collector, name, pattern, array, np.arange(row, row + len(array)))
    odd = np.flatnonzero(~pc.string_is_ascii(array).to_numpy(zero_copy_only=False))
    if not len(odd):
        return
    array, rows = array.take(odd), odd + row
    for pattern in NON_ASCII:
        _search(collector, name, pattern, array, rows)
    composed = pc.utf8_normalize(array, form="NFC")
    other = _true(pc.not_equal(composed, array))
    collector.add_rows(
        "not-nfc", rows[other], lambda _: f"{name!r} is not in NFC form: {shown(array[int(other[0])].as_py())}"
    )
    for index in _true(pc.match_substring_regex(array, BIDI.regex)):
        text = array[int(index)].as_py()
        if unclosed(text):
            message = f"{name!r} {BIDI.description}: {shown(BIDI.excerpt(text))}"
            collector.add_row(BIDI.kind, int(rows[index]), message)


def _search(collector: FindingCollector, name: str, pattern: Pattern, array: pa.Array, rows: Indices) -> None:
    matches = _true(pc.match_substring_regex(array, pattern.regex))
    if len(matches):
        message = f"{name!r} {pattern.description}: {shown(pattern.excerpt(array[int(matches[0])].as_py()))}"
        collector.add_rows(pattern.kind, rows[matches], lambda _: message)


def _check_lengths(collector: FindingCollector, name: str, lengths: npt.NDArray[np.int64]) -> None:
    """Report texts far longer than the others, and many that end at one length."""
    median, most = int(np.median(lengths)), int(lengths.max())
    far = np.flatnonzero((lengths > LONG_RATIO * median) & (lengths > LONG_CHARACTERS))
    half = f"half of the texts have {median:,} or fewer"
    collector.add_rows("text-long", far, lambda row: f"{name!r} has {lengths[row]:,} characters; {half}")
    ends = np.flatnonzero(lengths == most)
    enough = max(CUT_ROWS, CUT_SHARE * len(lengths))
    if most < CUT_CHARACTERS or len(ends) < enough:
        return
    # One text that many rows share, as questions do a context, is no sign of truncation.
    if len(set(map(hash, collector.table.select(ends).column(name)))) >= enough:
        message = f"{name!r}: {len(ends):,} texts have exactly {most:,} characters, and none has more: truncated?"
        collector.add_row("cut-before", int(ends[0]), message)


def _check_pairs(collector: FindingCollector, columns: Sequence[str]) -> None:
    row = 0
    for first, second in collector.table.arrays(columns[:2]):
        same = _true(pc.equal(first, second)) + row
        collector.add_rows("pair-same", same, lambda _: f"{columns[0]!r} and {columns[1]!r} are the same")
        row += len(first)


def _common_prefix(texts: list[str]) -> str:
    """What all texts start with: what the first and the last in sorted order have in common."""
    low, high = min(texts), max(texts)
    same = next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    return low[:same]


def _true(mask: pa.Array) -> Indices:
    """The indices where an Arrow array of booleans is true."""
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))
