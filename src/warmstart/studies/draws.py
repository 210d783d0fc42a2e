"""The training rows of a cell: drawn from all rows of a set, by seed."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warmstart.errors import RecipeError
from warmstart.options import Values
from warmstart.recipe.study import StudySize
from warmstart.storage.files import write_text
from warmstart.storage.folders import make_folder

ANSWER = "label"
QUERY = "query"
JSONL = ".jsonl"


def draw(rows: Sequence[Values], size: StudySize, seed: int) -> list[Values]:
    """Rows in random order, at most so many of each label and in all, or those of so many queries.

    A seed's larger draw contains its smaller one.
    """
    if size.fixed:
        return list(rows)
    mixed = random.Random(seed).sample(rows, len(rows))
    if size.queries is not None:
        chosen = list(dict.fromkeys(row[QUERY] for row in mixed))[: size.queries]
        return [row for row in mixed if row[QUERY] in set(chosen)]
    if size.per_label is not None:
        mixed = _first_of_each(mixed, lambda label: size.of_label.get(label, size.per_label or 0))
    if size.share is not None:
        share, counts = size.share, Counter(_label(row) for row in rows)
        mixed = _first_of_each(mixed, lambda label: math.ceil(share * counts[label] - 1e-9))
    drawn = mixed[: size.rows]
    if size.every_label:
        known = {_label(row) for row in drawn}
        drawn += [row for row in _first_of_each(mixed, lambda _: 1) if _label(row) not in known]
    return drawn


def _first_of_each(rows: Sequence[Values], most: Callable[[str], int]) -> list[Values]:
    """The first rows of each label, as many as `most` says of it."""
    seen: Counter[str] = Counter()
    few = []
    for row in rows:
        label = _label(row)
        seen[label] += 1
        if seen[label] <= most(label):
            few.append(row)
    return few


def _label(row: Values) -> str:
    """The label of a row; rows without one, such as those of entities, are all alike."""
    return str(row.get(ANSWER, ""))


def write_draw(file: Path, size: StudySize, seed: int, path: Path, names: Mapping[str, str] | None = None) -> None:
    """Write the rows that a seed draws from a CSV or JSONL file to another one of its kind, in one step.

    Args:
        names: The column of the file for each of `text`, `pair` and `label` that is named otherwise there.
    """
    if file.suffix == JSONL:
        drawn = draw(_json_rows(file), size, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in drawn))
        return
    with file.open(newline="", encoding="utf-8") as content:
        own = {column: name for name, column in (names or {}).items()}
        reader = csv.DictReader(content)
        rows = [{own.get(column, column): cell for column, cell in row.items()} for row in reader]
        columns = [own.get(column, column) for column in reader.fieldnames or ()]
    if ANSWER not in columns or not rows:
        raise RecipeError(
            f"{file}: found {len(rows)} rows with the columns {', '.join(columns) or 'none'}; expected rows with a "
            f"column {ANSWER}; where it is named otherwise, set columns of the set to {{{ANSWER}: NAME}}"
        )
    make_folder(path.parent)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(draw(rows, size, seed))
    write_text(path, text.getvalue())


def _json_rows(file: Path) -> list[Values]:
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise RecipeError(f"{file}:{number}: found no JSON ({error}); expected an object per line") from None
    return rows
