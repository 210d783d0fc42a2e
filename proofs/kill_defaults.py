"""SIGKILL while `fit` without options embeds, compares on held-out rows, chooses and trains: the same model each time.

The rules are those of `fit`, with fewer rows and steps. The choice must be the same after every kill.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from common import ROOT, arguments, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

from tiny import declare_mean_pooling
from tiny_fit import TinyFit, draw, kill_when
from warmstart.evaluation.records.training import RuleRecord
from warmstart.pipeline import held_out, rules

STEPS = 12
PHASES = {
    "probe": "while the rows were embedded and the first regression was fitted",
    "comparing": "while a candidate was trained without the held-out rows",
    "choosing": "around the moment the choice was published",
    "training": "while the chosen way was trained on all rows",
}


class TinyDefaults(TinyFit):
    """`fit` with nothing set, on an encoder of sentences."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rules.HELD_OUT_ROWS, rules.STEPS = (10, 1000), STEPS
        start = rules._probe_start
        rules._probe_start = lambda recipe: [*start(recipe), RuleRecord("training.max_steps", STEPS, "it is a proof")]
        declare_mean_pooling(self.encoder)
        self.settings = {"checkpoints": {"every_steps": 3}}


def result(run: Path) -> dict[str, bytes]:
    """What must be equal to the bit: all weights, the choice and the scores."""
    files = [*sorted((run / "model").rglob("*.safetensors")), run / "metrics.json"]
    files += [run / held_out.FOLDER / "final_model.json"]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def reached(phase: str, run: Path) -> Callable[[], bool]:
    """Whether a run is in a phase."""
    trials, choice = run / held_out.TRIALS, run / held_out.FOLDER
    return {
        "probe": trials.is_dir,
        "comparing": lambda: any(trials.glob("*/checkpoints/step-*")),
        "choosing": lambda: choice.is_dir() or any(run.glob(f".{held_out.FOLDER}*")),
        "training": lambda: choice.is_dir() and any((run / "checkpoints").glob("step-*")),
    }[phase]


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 20, "kills")
    random, counts = draw(0), {phase: [0, 0] for phase in PHASES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny = TinyDefaults(folder)
        assert tiny.run(folder / "alone") == 0, (folder / "last-error").read_text()
        expected, run = result(folder / "alone"), folder / "run"
        for number in range(args.n):
            phase = list(PHASES)[number % len(PHASES)]
            while True:  # until the kill came before the end
                shutil.rmtree(run, ignore_errors=True)
                latest = {"probe": 0.4, "comparing": 0.5, "choosing": 0.01, "training": 0.2}[phase]
                if kill_when(tiny.start(run), reached(phase, run), random.uniform(0, latest)):
                    break
            finished = (run / "metrics.json").exists()
            counts[phase][0] += 1
            counts[phase][1] += (finished or tiny.run(run) == 0) and result(run) == expected
        choice = json.loads(expected[f"{held_out.FOLDER}/final_model.json"])["chosen"]
    figures = {"runs": args.n, "bit_equal": sum(equal for _, equal in counts.values()), "chosen": choice}
    if args.write:
        write_page("kill-defaults", "Killed while fit decides", "make proof-kill-defaults", _page(figures, counts))
    finish(figures)


def _page(figures: dict[str, object], counts: dict[str, list[int]]) -> str:
    rows = "\n".join(f"| {PHASES[phase]} | {runs} | {equal} |" for phase, (runs, equal) in counts.items())
    return (
        f"**{figures['bit_equal']} of {figures['runs']}** runs of `fit` without options that were killed with SIGKILL "
        "resumed, made the same choice and ended with weights and scores bit-identical to those of an uninterrupted "
        f"run.\n\n| killed | runs | bit-identical |\n| --- | ---: | ---: |\n{rows}\n\n"
        "The runs decide by the [rules](../explanation/rules.md), with a tiny encoder and 64 rows: two ways to train "
        "are compared on 13 held-out rows, and the better one is trained on all rows."
    )


if __name__ == "__main__":
    main()
