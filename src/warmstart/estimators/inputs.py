"""What scikit-learn passes to an estimator, as texts and answers; what is none is refused by its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from warmstart.errors import InputError

TextOrPair = str | tuple[str, ...]


def read_texts(X: Any) -> list[TextOrPair]:
    """Texts as strings, or pairs of them as tuples, from a list, an array, or one or two columns of a data frame."""
    if isinstance(X, str | bytes | Mapping):
        raise InputError(f"X: found {_shown(X)}, expected a list of texts: put a single text into a list")
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biufc":
        kind = f"{type(X).__module__}.{type(X).__name__}"
        raise InputError(f"X: found {kind} of {X.dtype}, expected texts; leave a vectorizer before the estimator out")
    try:
        # Iterating over a data frame would yield the names of its columns.
        rows = list(np.asarray(X) if hasattr(X, "__array__") else X)
    except TypeError:
        raise InputError(f"X: found {type(X).__name__}, expected a list, an array or a column of texts") from None
    if not rows:
        raise InputError("X: found 0 texts, expected at least one")
    texts = [_text(row) for row in rows]
    missing = [index for index, text in enumerate(texts) if text is None]
    _refuse("X", rows, missing, "a text or a pair of texts; fill it in or leave the row out")
    whole = [text for text in texts if text is not None]
    first = type(whole[0])
    others = [index for index, text in enumerate(whole) if type(text) is not first]
    _refuse("X", rows, others, f"a {'text' if first is str else 'pair of texts'}, as in X[0]")
    return whole


def read_answers(y: Any, estimator: str) -> NDArray[Any]:
    """The answers as one array, refusing a missing or an infinite one."""
    if y is None:
        raise InputError(f"{estimator} requires y to be passed, but the target y is None; call fit(texts, answers)")
    # As objects first: an array of texts would turn a missing one into the text "nan".
    values = column_or_1d(np.asarray(y, dtype=object), warn=True)
    missing = [index for index, value in enumerate(values) if _is_missing(value)]
    _refuse("y", values, missing, "an answer; fill it in or leave the row out")
    return np.asarray(y).reshape(-1)


def read_labels(y: NDArray[Any]) -> NDArray[Any]:
    """The different labels, sorted."""
    try:
        labels = np.unique(y)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise InputError(f"y: found labels of the types {kinds}, expected one type") from None
    if labels.dtype.kind == "f":
        fractions = np.flatnonzero(y % 1 != 0).tolist()
        _refuse("y", y, fractions, "a label. Unknown label type: continuous; TextScorer predicts numbers")
    if len(labels) < 2:
        raise InputError(f"y: found one class, {labels[0]!r:.60}, expected two or more")
    return labels


def read_numbers(y: NDArray[Any]) -> list[float]:
    """The answers as numbers."""
    _refuse("y", y, [index for index, value in enumerate(y) if not _is_number(value)], "a number")
    return [float(value) for value in y]


def _text(row: object) -> TextOrPair | None:
    """A row as a text or a pair; None if it is neither."""
    if isinstance(row, str):
        return str(row)
    parts = tuple(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, bytes) else ()
    if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
        return None
    return str(parts[0]) if len(parts) == 1 else tuple(map(str, parts))


def _is_missing(value: Any) -> bool:
    if isinstance(value, float) and np.isinf(value):
        return True
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def _refuse(name: str, values: Any, indices: Sequence[int], expected: str) -> None:
    """Refuse the values at these indices, if there are any: the first by its index, the others by their number."""
    if indices:
        others = f" ({len(indices) - 1:,} more like it)" if len(indices) > 1 else ""
        raise InputError(f"{name}[{indices[0]}]: found {_shown(values[indices[0]])}, expected {expected}{others}")


def _shown(value: object) -> str:
    """A value and its type, which a text `nan` and a missing value differ in."""
    return f"{value!r:.60} ({type(value).__name__})"
