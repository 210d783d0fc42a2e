"""Splitting a table: stratified, the same for the same rows and seed, with duplicates in one part."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warmstart.data.schema import Value
from warmstart.data.table import Indices, Table
from warmstart.errors import DataError, Location, RecipeError

Keys = npt.NDArray[np.uint64]


def fold_text(text: str) -> str:
    """Text without differences that hardly matter: NFKC, case folded, white space collapsed."""
    if text.isascii():  # the long way gives the same, slower
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def _folded(value: Value) -> str:
    """A text folded; anything else, such as a list of texts, folded as JSON."""
    return fold_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def row_keys(table: Table, text_columns: Sequence[str]) -> Keys:
    """Hash each row's folded texts to a stable 64-bit number: case and spacing make no difference."""
    keys = np.empty(len(table), dtype=np.uint64)
    start = 0
    for arrays in table.arrays(text_columns, size=1000):
        columns = [[_folded(value) for value in array.to_pylist()] for array in arrays]
        # The separator cannot occur in a folded text: it counts as white space there.
        joined = ["\x1f".join(texts) for texts in zip(*columns, strict=True)]
        hashes = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in joined)
        keys[start : start + len(joined)] = np.frombuffer(hashes, dtype="<u8")
        start += len(joined)
    return keys


def split_table(
    table: Table, text_columns: Sequence[str], answer: str | None, parts: Mapping[str, float], seed: int
) -> dict[str, Indices]:
    """Split the rows: a fraction to each of `parts`, the rest to `train`; indices ascend within a part.

    Rows with the same folded texts stay together. Where `answer` names a label column, each class is split by the same
    fractions, as far as whole rows allow; a class with a single text goes to `train`. For a column of several labels a
    class is a set of labels, and the sets that occur once are one class. Which part a row gets depends on the rows and
    the seed, not on the order of the rows.
    """
    _check_parts(parts)
    groups = _groups(table, text_columns, answer, seed)
    part_of = groups.spread(_share(groups.strata, groups.sizes, groups.priority, list(parts.values())))
    chosen_parts = {name: np.flatnonzero(part_of == number) for number, name in enumerate(parts, 1)}
    for name, indices in chosen_parts.items():
        if not len(indices):
            raise DataError(
                f"the part {name!r} would be empty: {parts[name]} of {len(table)} rows "
                f"({len(groups.sizes)} different texts). "
                "Set a larger fraction, or give more rows or a file of its own.",
                "part-empty",
                location=Location(table.files[0]),
            )
    return {"train": np.flatnonzero(part_of == 0), **chosen_parts}


def take_fraction(table: Table, text_columns: Sequence[str], answer: str | None, fraction: float, seed: int) -> Indices:
    """Choose a fraction of the rows, in ascending order: of each class the same, and at least one text.

    Rows with the same folded texts are chosen together. With one seed, a smaller fraction is a part of a larger one.
    """
    groups = _groups(table, text_columns, answer, seed)
    order = np.lexsort((groups.priority, groups.strata))
    sizes = groups.sizes[order]
    firsts = np.flatnonzero(np.r_[True, np.diff(groups.strata[order]) != 0])
    counts = np.diff(np.r_[firsts, len(order)])
    rows = np.repeat(np.add.reduceat(sizes, firsts), counts)
    before = np.cumsum(sizes) - sizes
    before -= np.repeat(before[firsts], counts)
    # A class of its own offset: were every class rounded alike, the total of many small ones would be far off.
    offset = np.repeat(_mix(groups.priority[order][firsts], seed) / 2.0**64, counts)
    needed = (before + offset * sizes) / rows  # the fraction from which on a group is chosen
    needed[firsts] = 0.0
    chosen = np.empty(len(order), dtype=np.int64)
    chosen[order] = needed < fraction
    return np.flatnonzero(groups.spread(chosen))


def shared_rows(a: Table, b: Table, text_columns: Sequence[str]) -> Indices:
    """The rows in `a` whose folded texts are also in `b`."""
    return np.flatnonzero(np.isin(row_keys(a, text_columns), row_keys(b, text_columns)))


@dataclass(frozen=True)
class _Groups:
    """Rows with the same folded texts, which stay together: the class, size and rank by chance of each group."""

    strata: Indices
    sizes: Indices
    priority: Keys
    order: Indices
    """The rows, group by group."""

    def spread(self, chosen: Indices) -> Indices:
        """A number for each group as one for each row."""
        rows = np.empty(len(self.order), dtype=np.int64)
        rows[self.order] = np.repeat(chosen, self.sizes)
        return rows


def _groups(table: Table, text_columns: Sequence[str], answer: str | None, seed: int) -> _Groups:
    hashes = row_keys(table, text_columns)
    strata = _strata(table, answer)
    # Rows sorted by key and class: a group has one key, and its class is that of its first row.
    order = np.lexsort((strata, hashes))
    starts = np.flatnonzero(np.r_[True, hashes[order][1:] != hashes[order][:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    return _Groups(strata[order][starts], sizes, _mix(hashes[order][starts], seed), order)


def _share(strata: Indices, sizes: Indices, priority: Keys, fractions: list[float]) -> Indices:
    """Choose the part of each group: 0 for the rest, then 1, 2, … in the order of the fractions."""
    order = np.lexsort((priority, strata))
    firsts = np.flatnonzero(np.r_[True, np.diff(strata[order]) != 0])
    number = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(strata)]))  # the class, counted from 0
    rows = np.add.reduceat(sizes[order], firsts)
    seats = _seats(rows, fractions, priority[order][firsts])
    # A group larger than a part comes first, where the rest is: one text repeated often must not fill a part.
    smallest = np.where(seats > 0, seats, np.iinfo(np.int64).max).min(axis=0)
    order = order[np.lexsort((priority[order], sizes[order] <= smallest[number], number))]
    # Lay a class's groups end to end: the rest takes the front, each part an interval after it. A group belongs to
    # the interval that contains its middle.
    lengths = sizes[order]
    ends = np.cumsum(lengths)
    middle = ends - lengths / 2 - (ends - lengths)[firsts][number]
    edge = (rows - seats.sum(axis=0))[number]
    part = np.zeros(len(strata), dtype=np.int64)
    for seat in seats:
        part += middle > edge
        edge = edge + seat[number]
    part[firsts] = 0  # training sees every class
    result = np.empty_like(part)
    result[order] = part
    return result


def _seats(rows: Indices, fractions: list[float], tie: Keys) -> Indices:
    """Count rows per part and class: rounded down, then up by largest remainder to fit the total."""
    seats = np.empty((len(fractions), len(rows)), dtype=np.int64)
    taken = np.zeros(len(rows), dtype=np.int64)
    for part, fraction in enumerate(fractions):
        exact = np.round(rows * fraction, 9)  # 100 * 0.29 is a little less than 29
        seats[part] = np.floor(exact)
        left = int(round(float(rows.sum()) * fraction) - seats[part].sum())
        # A class keeps a row for training, and gives one more only for a remainder.
        room = (rows - taken - seats[part] > 1) & (exact > seats[part])
        order = np.lexsort((tie, -(exact - seats[part]), ~room))
        seats[part][order[: min(left, int(room.sum()))]] += 1
        taken += seats[part]
    return seats


def _strata(table: Table, answer: str | None) -> Indices:
    """A number for each row's class, in the order of class names; zeros where nothing is stratified."""
    codes = np.zeros(len(table), dtype=np.int64)
    if answer is None or not len(table):
        return codes
    known: dict[Value, int] = {}
    start = 0
    for (array,) in table.arrays([answer]):
        values = array.to_pylist()
        if isinstance(values[0], int | float):
            return codes
        names = [_class(value) for value in values]
        codes[start : start + len(names)] = [known.setdefault(name, len(known)) for name in names]
        start += len(names)
    ranks = np.empty(len(known), dtype=np.int64)
    ranks[[known[name] for name in sorted(known)]] = np.arange(len(known))
    if isinstance(next(iter(known)), tuple):
        ranks[np.bincount(codes) == 1] = len(known)  # else every rare set of labels would go to `train`
    return np.asarray(ranks[codes], dtype=np.int64)


def _class(answer: Value) -> Value:
    """What rows are stratified by: a label, a set of labels, or whether there is any answer."""
    if not isinstance(answer, list):
        return answer
    return tuple(sorted({item.get("label", "") if isinstance(item, dict) else item for item in answer}))


def _mix(hashes: Keys, seed: int) -> Keys:
    """Shuffle the keys, differently for each seed (splitmix64: no two keys collide)."""
    with np.errstate(over="ignore"):
        mixed = hashes + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def _check_parts(parts: Mapping[str, float]) -> None:
    if "train" in parts or not parts:
        raise RecipeError(
            f"parts: name only those besides 'train', which is the rest; found {', '.join(parts) or 'none'}."
        )
    if any(not fraction > 0 for fraction in parts.values()) or not sum(parts.values()) < 1:
        raise RecipeError(f"parts: expected fractions above 0 that leave a rest for 'train', found {dict(parts)}.")
