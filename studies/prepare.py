"""Write public sets as CSV files into .cache/studies/data/: `python studies/prepare.py [NAME ...]`, all without a name.

`NAME-train.csv` has all training rows, `NAME-test.csv` at most 2,000 test rows; columns `text`, `label`, and `pair`
between them for pairs. What each set is made of is in `sets.py`. Files that are there and right are left alone.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The readers of the sets' own files are those of the benchmarks.
sys.path.append(str(ROOT / "benchmarks"))

from set_files import MEASURE
from sets import SETS, Row

DATA = ROOT / ".cache" / "studies" / "data"


def write(path: Path, rows: list[Row]) -> None:
    """Write rows in one step, since another process may be about to read them."""
    columns = [name for name in ("text", "pair", "label") if name in rows[0]]
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    content = buffer.getvalue().encode()
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    staging.write_bytes(content)
    staging.replace(path)


def prepare(name: str) -> str:
    """Write the two files of a set, and say in a line what they hold."""
    train, test = SETS[name]()
    write(DATA / f"{name}-train.csv", train)
    write(DATA / f"{name}-test.csv", test)
    labels = {row["label"] for row in train}
    kind = "scores" if isinstance(train[0]["label"], float) else f"{len(labels)} labels"
    return f"{name}: {len(train)} training rows, {kind}, {len(test)} test rows"


def main(names: list[str]) -> None:
    """Prepare the sets that are named, or all."""
    unknown = [name for name in names if name not in SETS]
    if unknown:
        sys.exit(f"no set is called {unknown[0]!r}; there are: {', '.join(SETS)}")
    if not MEASURE.is_dir():
        sys.exit(f"no {MEASURE}: the sets are read from a folder beside the checkout")
    for name in names or SETS:
        print(prepare(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
