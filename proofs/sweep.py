"""A sweep of two workers, killed with SIGKILL at random instants and started again: no trial is lost or done twice.

Every trial must end once, with the settings and the value that it has in a sweep left alone, and the best model must
be the same to the bit.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import arguments, finish, write_page
from tiny_fit import TinyFit, draw
from warmstart.experiments import sweep as module
from warmstart.experiments.sweep import SweepWorker, begin_sweep
from warmstart.experiments.sweep_journal import FILE
from warmstart.experiments.sweep_results import SweepResults, read_sweep, write_results
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import load_sweep, make_recipe

WORKERS = 2
MORE = 2
"""Trials for each kill: enough that all kills come while there is work left."""
ENDED = (1, 2, 3)
"""Optuna's numbers for a trial that is complete, pruned or failed, in the entries of its journal."""


class Proof:
    """The same sweep, left alone and killed."""

    def __init__(self, folder: Path, kills: int) -> None:
        self.folder, self.kills = folder, kills
        self.tiny = TinyFit(folder, saves=2)
        recipe = make_recipe(
            {
                "model": self.tiny.encoder,
                "data.train": str(self.tiny.train),
                "data.dev": str(self.tiny.test),
                "data.split.test": 0,
                "training": {"epochs": 6, "precision": "fp32"},
                "checkpoints.every_steps": 2,
            }
        )
        search = {"training.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "training.batch_size": [8, 16]}
        said = {"search": search, "sampler": "random", "trials": max(kills * MORE, 4)}
        self.asked = load_sweep(None, said, recipe)
        self.random = draw(0)
        module.PAUSE = 0.1

    def start(self, out: Path) -> int:
        """A worker in a fork; gives its process id. It notes in files each run that it begins and that it finishes."""
        child = os.fork()
        if child:
            return child
        code = 70

        def noted(recipe: Any, place: Path, *rest: Any, **more: Any) -> None:
            self._note(out, "begun", place)
            run_recipe(recipe, place, *rest, **more)
            self._note(out, "finished", place)

        try:
            module.run_recipe = noted  # type: ignore[assignment]
            SweepWorker(out).run()
            code = 0
        finally:
            os._exit(code)

    def alone(self, out: Path, workers: int) -> None:
        """Workers that are left alone until all is done."""
        begin_sweep(*self.asked, out)
        children = [self.start(out) for _ in range(workers)]
        assert [os.waitpid(one, 0)[1] for one in children] == [0] * workers

    def killed(self, out: Path, longest: float) -> int:
        """Workers that are killed at random instants again and again; gives how often a kill hit one at work."""
        hits = 0
        for _ in range(self.kills):
            begin_sweep(*self.asked, out)
            children = [self.start(out) for _ in range(WORKERS)]
            time.sleep(self.random.uniform(0.1, longest))
            for child in children:
                hits += not os.waitpid(child, os.WNOHANG)[0] and not os.kill(child, signal.SIGKILL)
            for child in children:
                try:
                    os.waitpid(child, 0)
                except ChildProcessError:  # it had ended, and was asked for above
                    continue
        return hits

    def _note(self, out: Path, name: str, place: Path) -> None:
        with (out.parent / f"{out.name}-{name}").open("a", encoding="utf-8") as file:
            file.write(f"{place.name}\n")

    def counted(self, out: Path, name: str) -> Counter[str]:
        """How often each trial was begun, or finished."""
        path = out.parent / f"{out.name}-{name}"
        return Counter(path.read_text(encoding="utf-8").split() if path.exists() else ())


def endings(out: Path) -> Counter[int]:
    """How often the journal was told that each trial has ended."""
    entries = map(json.loads, (out / FILE).read_text(encoding="utf-8").splitlines())
    return Counter(one["trial_id"] for one in entries if one.get("state") in ENDED and "trial_id" in one)


def told(found: SweepResults) -> list[Any]:
    """Of each trial what must be the same."""
    return [(one.number, one.state, one.value, one.settings) for one in found.trials]


def best_bytes(found: SweepResults) -> bytes:
    """The weights of the best trial."""
    assert found.run is not None
    return (found.run.model / "model.safetensors").read_bytes()


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 10, "kills")
    with tempfile.TemporaryDirectory() as name:
        proof = Proof(Path(name), args.n)
        alone, killed = Path(name) / "alone", Path(name) / "killed"
        started = time.monotonic()
        proof.alone(alone, 1)
        each = (time.monotonic() - started) / proof.asked[0].wanted
        hits = proof.killed(killed, 1.5 * each)
        proof.alone(killed, WORKERS)
        ours, theirs = write_results(killed), read_sweep(alone)
        began, ended = proof.counted(killed, "begun"), endings(killed)
        figures: dict[str, Any] = {
            "kills": args.n,
            "workers_killed": hits,
            "trials": len(ours.trials),
            "gone_on_with": sum(count > 1 for count in began.values()),
            "lost": proof.asked[0].wanted - sum(one.state == "complete" for one in ours.trials),
            "done_twice": sum(count > 1 for count in proof.counted(killed, "finished").values()),
            "told_twice": sum(ended[one.number] != 1 for one in ours.trials),
            "as_left_alone": sum(a == b for a, b in zip(told(ours), told(theirs), strict=True)),
            "best_bit_equal": best_bytes(ours) == best_bytes(theirs),
        }
    if args.write:
        write_page("sweep", "A sweep, killed again and again", "make proof-sweep", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    equal = "bit-identical to that of an uninterrupted sweep" if figures["best_bit_equal"] else "ANOTHER"
    return (
        f"Of {figures['trials']} trials whose workers were killed at **{figures['kills']}** random times, "
        f"{figures['lost']} were lost and {figures['done_twice']} trained twice, and the best trial's model is "
        f"{equal}.\n\n"
        f"A sweep of {figures['trials']} trials with {WORKERS} workers, both killed with SIGKILL at "
        f"**{figures['kills']}** random times and restarted; {figures['workers_killed']} workers were running a trial "
        f"when killed. {figures['gone_on_with']} trials were started by one worker and resumed by another.\n\n"
        "| | trials |\n| --- | ---: |\n"
        f"| lost | {figures['lost']} |\n"
        f"| trained to the end twice | {figures['done_twice']} |\n"
        f"| recorded as ended more than once, or never | {figures['told_twice']} |\n"
        f"| with the settings and the score of an uninterrupted sweep | {figures['as_left_alone']} |\n\n"
        "A trial is a tiny encoder on 64 rows for 6 epochs, with a checkpoint "
        "every 2 steps; settings are sampled at random, from the seed and the trial's number."
    )


if __name__ == "__main__":
    main()
