"""SIGKILL at many instants: every run resumes and ends with weights and optimizer equal to the bit.

Half of the kills come at random times, half inside a save; further ones during resume, rotation and the publishing of
the model. After each kill, a run that had a checkpoint must still have a valid one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import arguments, finish, write_page
from tiny_fit import KEEP, TinyFit, draw, kill_when, result
from warmstart.errors import RunError
from warmstart.training.checkpoints import CheckpointStore


def valid(run: Path) -> bool:
    """Whether a checkpoint is whole."""
    try:
        return CheckpointStore(run / "checkpoints").newest()[0] is not None
    except RunError:  # made otherwise than with no identity at all: so it is whole
        return True


def names(folder: Path) -> list[str]:
    """What a folder holds; nothing where it is not there (any more)."""
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def staging(run: Path, name: str) -> Callable[[], bool]:
    """Whether something of this name is being written."""
    return lambda: any(
        one.startswith(f".{name}") and one.endswith(".staging")
        for folder in (run, run / "checkpoints")
        for one in names(folder)
    )


def saved(run: Path) -> int:
    """How many checkpoints are in their place."""
    return sum(one.startswith("step-") for one in names(run / "checkpoints"))


class Proof:
    """Kills and what became of them.

    Args:
        tiny: The training to kill; that of a tiny encoder by default.
    """

    def __init__(self, folder: Path, tiny: TinyFit | None = None) -> None:
        self.folder = folder
        self.tiny = tiny or TinyFit(folder)
        self.random = draw(0)
        started = time.monotonic()
        assert self.tiny.run(folder / "alone") == 0
        self.seconds = time.monotonic() - started
        self.expected = result(folder / "alone")
        self.counts: dict[str, dict[str, int]] = {}
        self.lost = 0

    def case(self, kind: str) -> None:
        """Kill one run, resume it, and compare."""
        count = self.counts.setdefault(kind, {"runs": 0, "bit_equal": 0})
        run = self.folder / "run"
        while True:  # until the kill hit what it was meant for
            shutil.rmtree(run, ignore_errors=True)
            if self._kill(kind, run):
                break
        had = saved(run) > 0
        self.lost += had and not valid(run)
        count["runs"] += 1
        finished = (run / "metrics.json").exists()  # killed on its way out: nothing is left to resume
        count["bit_equal"] += (finished or self.tiny.run(run) == 0) and result(run) == self.expected

    def _kill(self, kind: str, run: Path) -> bool:
        """Start a run and kill it; False if the kill missed what it was meant for."""
        now = self.random.uniform
        if kind == "random":
            return kill_when(self.tiny.start(run), _at_once, now(0, self.seconds))
        if kind == "save":
            least = min(self.random.randint(0, 6), KEEP)  # the first, second or a later save
            saving = staging(run, "step-")
            return kill_when(self.tiny.start(run), lambda: saving() and saved(run) >= least, now(0, 0.008)) and saving()
        if kind == "publish":
            publishing = staging(run, "model.")
            return kill_when(self.tiny.start(run), publishing, now(0, 0.01)) and publishing()
        if kind == "rotation":
            return kill_when(self.tiny.start(run), lambda: saved(run) > KEEP, 0)
        # During resume: a run is killed after its first saves, goes on, and is killed again while it starts.
        first = kill_when(self.tiny.start(run), lambda: saved(run) >= KEEP, now(0, 0.05))
        return first and kill_when(self.tiny.start(run), _at_once, now(0, self.seconds / 2))


def _at_once() -> bool:
    return True


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 100, "kills of the main part")
    with tempfile.TemporaryDirectory() as name:
        proof = Proof(Path(name))
        other = max(args.n * 3 // 10 // 3, 1)
        plan = ["random"] * (args.n - args.n // 2) + ["save"] * (args.n // 2)
        plan += ["resume"] * other + ["rotation"] * other + ["publish"] * other
        for kind in plan:
            proof.case(kind)
    main_part = [proof.counts[kind] for kind in ("random", "save") if kind in proof.counts]
    rest = [proof.counts[kind] for kind in ("resume", "rotation", "publish")]
    figures: dict[str, Any] = {
        "runs": sum(count["runs"] for count in main_part),
        "bit_equal": sum(count["bit_equal"] for count in main_part),
        "inside_a_save": proof.counts.get("save", {"runs": 0})["runs"],
        "more_runs": sum(count["runs"] for count in rest),
        "more_bit_equal": sum(count["bit_equal"] for count in rest),
        "left_without_a_valid_checkpoint": proof.lost,
    }
    if args.write:
        write_page("kill", "Killed at any instant", "make proof-kill", _page(figures, proof.counts))
    finish(figures)


def _page(figures: dict[str, Any], counts: dict[str, dict[str, int]]) -> str:
    named = {
        "random": "at a random time",
        "save": "while a checkpoint was saved",
        "resume": "during the start of a resumed run",
        "rotation": "between saving a checkpoint and removing the oldest",
        "publish": "while the finished model was written",
    }
    rows = "\n".join(f"| {named[kind]} | {c['runs']} | {c['bit_equal']} |" for kind, c in counts.items())
    return (
        f"**{figures['bit_equal']} of {figures['runs']}** runs killed with SIGKILL resumed and ended with weights, "
        "optimizer, random state and scores bit-identical to those of an uninterrupted run, and so did "
        f"{figures['more_bit_equal']} of {figures['more_runs']} that were killed at harder points. "
        f"{figures['left_without_a_valid_checkpoint']} runs that had a checkpoint were left without a valid one.\n\n"
        f"| killed | runs | bit-identical |\n| --- | ---: | ---: |\n{rows}\n\n"
        "The runs train a tiny encoder on 64 rows for 24 steps with dropout, save every 3 steps, and keep 2 "
        "checkpoints."
    )


if __name__ == "__main__":
    main()
