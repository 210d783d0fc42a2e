"""One side of the proof that nothing changed: runs every case with the tree that comes first in PYTHONPATH.

It uses only the command line and the public names of warmstart, so that the same script drives both trees. What it
writes to `--out` is compared by `unchanged.py`: run folders, answers, and a checksum of the batch of every step.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
}.items():
    os.environ[_name] = _value

from unchanged_cases import COMMON, TAKING_PART, fits
from unchanged_inputs import write_inputs
from unchanged_verbs import FIRST, INNER, LAST
from unchanged_words import COMMAND, arguments_in, options_in, recipe_in


class Crash(Exception):
    """Stands for any error in the middle of a training."""


class Steps:
    """Records every training step of `transformers.Trainer`, and interrupts a training at a given step."""

    def __init__(self) -> None:
        self.recorded: list[dict[str, Any]] = []
        self.end_at: tuple[int, Callable[[], None]] | None = None

    def record(self) -> None:
        """Start recording each step: its batch, and the learning rate and trainable size of each parameter group."""
        import transformers

        step = transformers.Trainer.training_step

        def recorded(trainer: Any, model: Any, inputs: dict[str, Any], *rest: Any, **more: Any) -> Any:
            groups = trainer.optimizer.param_groups
            rates = [[group["lr"], group["weight_decay"], _trainable(group["params"])] for group in groups]
            self.recorded.append({"batch": _digest(inputs), "groups": sorted(rates)})
            if self.end_at is not None and len(self.recorded) == self.end_at[0]:
                self.end_at[1]()
            return step(trainer, model, inputs, *rest, **more)

        transformers.Trainer.training_step = recorded

    def take(self) -> list[dict[str, Any]]:
        """The steps recorded since the last call."""
        steps, self.recorded, self.end_at = self.recorded, [], None
        return steps


def _trainable(parameters: list[Any]) -> int:
    return sum(one.numel() for one in parameters if one.requires_grad)


def _digest(inputs: Any) -> str:
    """A checksum of all numbers of a batch, whatever the names of its tensors."""
    if isinstance(inputs, Mapping):
        content = " ".join(sorted(map(_digest, inputs.values()))).encode()
    elif hasattr(inputs, "numpy"):
        content = f"{inputs.dtype} {tuple(inputs.shape)} ".encode() + inputs.detach().cpu().numpy().tobytes()
    else:
        content = repr(inputs).encode()
    return hashlib.sha256(content).hexdigest()[:24]


class Side:
    """One of the two trees, with the folders that its cases read from and write to."""

    def __init__(self, words: str, inputs: Path, out: Path) -> None:
        self.words, self.inputs, self.out = words, inputs, out
        self.steps = Steps()
        self.case = out / "none"
        self.recipes = out / "recipes"
        self.recipes.mkdir(parents=True, exist_ok=True)
        for name, values in TAKING_PART.items():
            self.write_recipe(name, values)

    @contextlib.contextmanager
    def case_folder(self, case: str) -> Iterator[None]:
        """Give a case its own folder and cache; a case within another returns to the outer one."""
        outer, steps = self.case, self.steps.take()
        self._enter(self.out / "cases" / case)
        try:
            yield
        finally:
            if own := self.steps.take():
                self.write_json(f"steps-{os.environ.get('RANK', 0)}.json", own)
            self._enter(outer)
            self.steps.recorded = steps

    def _enter(self, case: Path) -> None:
        self.case = case
        self.case.mkdir(parents=True, exist_ok=True)
        os.environ["WARMSTART_CACHE"] = str(case / "cache")

    def path(self, name: str) -> str:
        """The path of an input file or encoder."""
        return str(self.inputs / name)

    def _resolve(self, value: Any) -> Any:
        """Replace the names of inputs in a value by their paths."""
        if isinstance(value, Mapping):
            return {name: self._resolve(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._resolve(one) for one in value]
        return self.path(value) if isinstance(value, str) and value and (self.inputs / value).exists() else value

    def write_recipe(self, name: str, values: Mapping[str, Any]) -> str:
        """Write a recipe file in the words of this side; JSON is YAML."""
        given = {key: value for key, value in values.items() if value is not None or key == "learn.epochs"}
        path = self.recipes / f"{name.replace(' ', '-')}.yaml"
        path.write_text(json.dumps(recipe_in(self.words, self._resolve(given)), indent=1), encoding="utf-8")
        return str(path)

    def fit(self, out: str = "run", **values: Any) -> Path:
        """Train a recipe, given by its old dotted keys, into a folder of the case."""
        import warmstart

        recipe = self.write_recipe(f"{self.case.name} {out}", {**COMMON, **values})
        return Path(warmstart.fit(recipe, out=self.case / out).folder)

    def fitted(self, case: str) -> Path:
        """The run of another case; trained now if that case has not run yet."""
        run = self.out / "cases" / case / "run"
        if not run.is_dir():
            with self.case_folder(case):
                self.fit(**fits()[case])
        return run

    def run(self, verb: str, *options: str) -> str:
        """Run a command in this process, and return its standard output."""
        app = importlib.import_module(COMMAND[self.words]).app
        words = [verb, *options_in(self.words, verb, list(options))]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            app(words, standalone_mode=False)
        return output.getvalue()

    def run_json(self, name: str, verb: str, *options: str) -> Any:
        """Run a command with `--json`, and write its output to a file of the case."""
        output = self.run(verb, *options, "--json")
        try:
            result = json.loads(output)
        except ValueError:  # one answer per line
            result = [json.loads(line) for line in output.splitlines()]
        self.write_json(f"{name}.json", result)
        return result

    def call(self, name: str, *given: Any, **values: Any) -> Any:
        """Call a public name of warmstart with keyword arguments in old words."""
        import warmstart

        return getattr(warmstart, name)(*given, **arguments_in(self.words, name, values))

    def command(self, verb: str, *options: str) -> list[str]:
        """The command line that runs a verb in its own process."""
        return [sys.executable, "-m", COMMAND[self.words], verb, *options_in(self.words, verb, list(options))]

    def write_json(self, name: str, value: Any) -> None:
        """Write a file of the case."""
        (self.case / name).write_text(json.dumps(value, indent=1, allow_nan=True), encoding="utf-8")

    def interrupted(self, step: int, how: Callable[[], None], **values: Any) -> str:
        """Train, and interrupt the training at a step; returns the exit code of its error, or the error's name."""
        self.steps.end_at = (len(self.steps.recorded) + step, how)
        try:
            self.fit(**values)
        except Exception as error:
            return str(getattr(error, "exit_code", type(error).__name__))
        finally:
            self.steps.end_at = None
        return "finished"

    def killed(self, step: int, **values: Any) -> int:
        """Train in a forked process that is killed at a step; returns the signal that ended it."""
        child = os.fork()
        if not child:
            try:
                self.interrupted(step, lambda: os.kill(os.getpid(), signal.SIGKILL), **values)
            finally:
                os._exit(70)
        return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def all_cases() -> dict[str, Callable[[Side], Any]]:
    """All cases in order: those that fork come first, those that start Ray last."""
    trained = {name: _fit(name) for name in fits()}
    return {**FIRST, **trained, **LAST, **INNER}


def _fit(name: str) -> Callable[[Side], Any]:
    def do(side: Side) -> None:
        if not (side.case / "run").is_dir():  # an earlier case may have needed it
            side.fit(**fits()[name])

    return do


def main() -> None:
    """Run the cases; errors go to `failed.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", choices=("old", "new"), required=True, help="the words of this tree")
    parser.add_argument("--tree", type=Path, required=True, help="the tree that warmstart must be imported from")
    parser.add_argument("--inputs", type=Path, required=True, help="encoders and data files; written if missing")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", help="a JSON list of cases; all by default")
    args = parser.parse_args()
    import torch

    import warmstart

    assert Path(warmstart.__file__).is_relative_to(args.tree.resolve()), warmstart.__file__
    torch.set_num_threads(1)
    if not args.inputs.is_dir():
        write_inputs(args.inputs)
    side = Side(args.words, args.inputs, args.out)
    side.steps.record()
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}
    known = all_cases()
    for name in json.loads(args.cases) if args.cases else (name for name in known if name not in INNER):
        started = sum(os.times()[:4])  # CPU time, child processes included
        try:
            with side.case_folder(name):
                known[name](side)
        except Exception:
            if "RANK" in os.environ:  # torchrun reports it
                raise
            failed[name] = traceback.format_exc()
        seconds[name] = round(sum(os.times()[:4]) - started, 2)
        print(f"{seconds[name]:7.2f} s  {name}{'  FAILED' if name in failed else ''}", file=sys.stderr, flush=True)
        gc.collect()
    if "RANK" not in os.environ:
        (args.out / "failed.json").write_text(json.dumps(failed), encoding="utf-8")
        (args.out / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
