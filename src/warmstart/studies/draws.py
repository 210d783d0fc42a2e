"""The training rows of a cell: drawn from all rows of a set, by seed."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from warmstart.errors import RecipeError
from warmstart.recipe.study import StudySize
from warmstart.storage.files import write_text
from warmstart.storage.folders import make_folder

ANSWER = "label"


def draw(rows: Sequence[dict[str, str]], size: StudySize, seed: int) -> list[dict[str, str]]:
    """Rows in random order, at most so many of each label and in all; a seed's larger draw contains its smaller one."""
    mixed = random.Random(seed).sample(rows, len(rows))
    if size.per_label is not None:
        seen: Counter[str] = Counter()
        few = []
        for row in mixed:
            seen[row[ANSWER]] += 1
            if seen[row[ANSWER]] <= size.per_label:
                few.append(row)
        mixed = few
    return mixed[: size.rows]


def write_draw(file: Path, size: StudySize, seed: int, path: Path) -> None:
    """Write the rows that a seed draws from a CSV file to another one, in one step."""
    with file.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        rows = list(reader)
        columns = list(reader.fieldnames or ())
    if ANSWER not in columns or not rows:
        raise RecipeError(
            f"{file}: found {len(rows)} rows with the columns {', '.join(columns) or 'none'}; expected rows with a "
            f"column {ANSWER}"
        )
    make_folder(path.parent)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(draw(rows, size, seed))
    write_text(path, text.getvalue())
