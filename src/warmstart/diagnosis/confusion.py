"""The confusion matrix: what the data says beside what the model says, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from warmstart.tasks.base import Shown
from warmstart.tasks.shared.error_tables import table

MOST = 20
"""Confusions that are listed."""


def confusion(pairs: Sequence[tuple[str, str]], known: Sequence[str] = ()) -> dict[str, Any]:
    """How often each label of the data (rows) was given as which (columns).

    Args:
        known: Labels in the order to show them; others come after.
    """
    seen = {label for pair in pairs for label in pair}
    labels = [name for name in known if name in seen] + sorted(seen - set(known), key=_number_first)
    place = {name: number for number, name in enumerate(labels)}
    counts = [[0] * len(labels) for _ in labels]
    for true, given in pairs:
        counts[place[true]][place[given]] += 1
    return {"labels": labels, "counts": counts}


def frequent_confusions(pairs: Sequence[tuple[str, str]]) -> Shown | None:
    """The most frequent confusions as a table; None where nothing was confused."""
    wrong = Counter(pair for pair in pairs if pair[0] != pair[1])
    if not wrong:
        return None
    total = Counter(true for true, _ in pairs)
    rows = [[true, given, count, count / total[true]] for (true, given), count in wrong.most_common(MOST)]
    note = f"the {len(rows)} most frequent of {len(wrong):,}; share of those that are so in the data"
    return table("Confusions", note, ["in the data", "given", "count", "share"], rows)


def _number_first(name: str) -> tuple[bool, int, str]:
    return (not name.isdecimal(), int(name) if name.isdecimal() else 0, name)
