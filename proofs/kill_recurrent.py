"""SIGKILL at random instants of a recurrent model's trainings: over a stream with carried state, and as a classifier.

As `kill.py`, with a tiny AWD-LSTM: a language model whose checkpoints hold its state, and a classifier that is unfrozen
layer by layer. Each run is killed at a random time or while it saves, resumed, and must end bit-identical.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork

import warmstart
from common import arguments, finish, write_page
from kill import Proof
from tiny_fit import TinyFit
from warmstart.models.from_scratch import EncoderShape, make_encoder

TRAININGS: dict[str, dict[str, Any]] = {
    "language model": {
        "task": {"name": "masked", "objective": "clm", "bptt": 12},
        "training": {"learning_rate": 1e-2, "epochs": 6, "batch_size": 4},
    },
    "classifier": {
        "training": {"learning_rate": 1e-2, "epochs": 6, "batch_size": 16},
        "layers": {"lr_decay": 0.385, "unfreeze": "gradual"},
    },
}


class RecurrentFit(TinyFit):
    """One of the trainings, with an AWD-LSTM in place of the encoder."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        super().__init__(folder)
        texts = [line.rpartition(",")[0] for line in self.train.read_text(encoding="utf-8").splitlines()[1:]]
        shape = EncoderShape("awd-lstm", num_layers=2, hidden_size=24, embedding_size=16, vocab_size=300)
        self.encoder = str(make_encoder(texts, folder / "awd-lstm", shape))
        self.settings |= settings

    def fit(self, out: Path) -> None:
        """Train, or go on."""
        warmstart.fit(model=self.encoder, train=str(self.train), test=str(self.test), out=out, **self.settings)


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 10, "kills of each training")
    figures: dict[str, Any] = {"runs": 0, "bit_equal": 0}
    rows = []
    for name, settings in TRAININGS.items():
        with tempfile.TemporaryDirectory() as place:
            proof = Proof(Path(place), RecurrentFit(Path(place), settings))
            for number in range(args.n):
                proof.case("save" if number % 2 else "random")
        runs, equal = (sum(count[key] for count in proof.counts.values()) for key in ("runs", "bit_equal"))
        figures["runs"] += runs
        figures["bit_equal"] += equal
        rows.append(f"| {name} | {runs} | {equal} |")
    if args.write:
        body = (
            f"**{figures['bit_equal']} of {figures['runs']}** trainings of a tiny AWD-LSTM that were killed with "
            "SIGKILL, half of them while a checkpoint was saved, resumed and ended bit-identical to an uninterrupted "
            "one.\n\n| training | killed | bit-identical |\n| --- | ---: | ---: |\n" + "\n".join(rows)
        )
        write_page("kill-recurrent", "Killed at any instant: recurrent models", "make proof-kill-recurrent", body)
    finish(figures)


if __name__ == "__main__":
    main()
