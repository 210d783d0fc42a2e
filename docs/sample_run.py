"""The run behind the site's sample report: its records, without the model, are kept in docs/sample-run/.

When the site is built, the report is made from them by the code as it is then.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = Path(__file__).parent / "sample-run" / "messages"
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
RECORDS = (
    "run.json",
    "recipe.yaml",
    "data.json",
    "environment.json",
    "metrics.json",
    "predictions.parquet",
    "diagnosis.json",
    "stages/01-finetune/history.json",
)


def main(encoder: str = ENCODER) -> None:
    """Train with the defaults, diagnose, and keep the records.

    Args:
        encoder: The encoder, or a folder that it was downloaded to.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "messages"
        data = [
            "examples/messages.csv",
            "--test",
            "examples/messages_test.csv",
            "--text",
            "message",
            "--label",
            "topic",
        ]
        _warmstart("fit", *data, "--model", encoder, "--out", str(run))
        _warmstart("diagnose", str(run), "--explain", "5", "--target-precision", "0.95", "--abstain", "0.1")
        keep(run, encoder)


def keep(run: Path, encoder: str) -> None:
    """Copy the records of a run, with paths as seen from the repository and the encoder by its name."""
    shutil.rmtree(OUT, ignore_errors=True)
    for name in RECORDS:
        (OUT / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            shutil.copyfile(run / name, OUT / name)
            continue
        text = (run / name).read_text(encoding="utf-8")
        (OUT / name).write_text(text.replace(encoder, ENCODER).replace(f"{ROOT}/", ""), encoding="utf-8")


def _warmstart(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "warmstart.cli.main", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
