"""Write public sets into .cache/studies/data/: `python studies/prepare.py [NAME ...]`, all without a name.

`NAME-train.csv` has all training rows, `NAME-test.csv` the test rows; columns `text`, `label`, and `pair` between them
for pairs, or `query`, `document` and `label`. Rows with entities are JSONL files, and so is raw text
(`corpus-NAME.jsonl`). What each set is made of is in `sets.py`, `more_sets.py` and `ranking_sets.py`. Files that are
there and right are left alone.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# The readers of the sets' own files are those of the benchmarks.
sys.path.append(str(ROOT / "benchmarks"))

from more_sets import CORPORA, MORE
from ranking_sets import RANKING
from set_files import MEASURE
from sets import SETS

DATA = ROOT / ".cache" / "studies" / "data"
Row = dict[str, Any]
KNOWN: dict[str, Callable[[], tuple[list[Any], list[Any]]]] = {**SETS, **MORE, **RANKING}


def write(stem: Path, rows: list[Row]) -> None:
    """Write rows as CSV, or as JSONL where they have more than a label."""
    columns = [name for name in ("query", "document", "text", "pair", "label") if name in rows[0]]
    if columns[-1] != "label":
        _write(
            stem.with_name(f"{stem.name}.jsonl"), "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        )
        return
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write(stem.with_name(f"{stem.name}.csv"), buffer.getvalue())


def _write(path: Path, text: str) -> None:
    """Write in one step, since another process may be about to read it."""
    content = text.encode()
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    staging.write_bytes(content)
    staging.replace(path)


def prepare(name: str) -> str:
    """Write the files of a set, and say in a line what they hold."""
    if name in CORPORA:
        texts = [text for text in CORPORA[name]() if text.strip()]
        write(DATA / name, [{"text": text} for text in texts])
        return f"{name}: {len(texts)} texts"
    train, test = KNOWN[name]()
    write(DATA / f"{name}-train", train)
    write(DATA / f"{name}-test", test)
    labels = {row["label"] for row in train if "label" in row}
    kind = "scores" if isinstance(train[0].get("label"), float) else f"{len(labels)} labels" if labels else "entities"
    return f"{name}: {len(train)} training rows, {kind}, {len(test)} test rows"


def main(names: list[str]) -> None:
    """Prepare the sets that are named, or all."""
    unknown = [name for name in names if name not in {**KNOWN, **CORPORA}]
    if unknown:
        sys.exit(f"no set is called {unknown[0]!r}; there are: {', '.join([*KNOWN, *CORPORA])}")
    if not MEASURE.is_dir():
        sys.exit(f"no {MEASURE}: the sets are read from a folder beside the checkout")
    for name in names or [*KNOWN, *CORPORA]:
        print(prepare(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
