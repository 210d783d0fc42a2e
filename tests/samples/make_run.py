"""Write a sample of a run folder: every record that a run of the present format can have, and no weights.

Call it once for each format version: `python tests/samples/make_run.py tests/samples/run-format-1`. Samples of earlier
versions stay as they are, since they stand for runs that people have.
"""

import csv
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import warmstart
from small import reviews
from tiny import save_tiny
from warmstart.diagnosis.diagnose import diagnose

RECORDS = ("*.json", "recipe.yaml", "*.parquet", "stages/*/*.json")


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "general.txt").write_text("\n\n".join(f"a film {n} in paris and london" for n in range(24)))
        run = warmstart.fit(
            model=str(save_tiny(folder / "encoder")),
            train=write(folder / "train.csv", [*reviews(64), reviews(1, 1000)[0]]),
            dev=write(folder / "dev.csv", reviews(24, 500)),
            test=write(folder / "test.csv", reviews(24, 1000)),
            training={"learning_rate": 1e-3, "batch_size": 8, "epochs": 12, "precision": "fp32"},
            forgetting={"text": str(folder / "general.txt"), "rows": 8, "every_steps": 54},
            seeds=2,
            baseline="plain",
            out=folder / "run",
        )
        diagnose(run)
        for path in (path for pattern in RECORDS for path in run.folder.glob(pattern)):
            target = out / path.relative_to(run.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
