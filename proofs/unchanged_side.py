"""One side of the proof that nothing changed: every case, by the tree that stands first in PYTHONPATH.

It knows a tree by its command line and its public names alone, so that the same script drives both. What it leaves in
`--out` is compared by `unchanged.py`: run folders, answers, and of every training step a digest of its batch.
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
    """Stands for anything that ends a training in its midst."""


class Steps:
    """Looks on at every training step of `transformers.Trainer`, and ends a training after one of them if asked to."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.end_at: tuple[int, Callable[[], None]] | None = None

    def look_on(self) -> None:
        """From now on every step is noted: its batch, and at what rates how many parameters learn from it."""
        import transformers

        step = transformers.Trainer.training_step

        def noted(trainer: Any, model: Any, inputs: dict[str, Any], *rest: Any, **more: Any) -> Any:
            groups = trainer.optimizer.param_groups
            learning = [[group["lr"], group["weight_decay"], _learning(group["params"])] for group in groups]
            self.seen.append({"batch": _digest(inputs), "learning": sorted(learning)})
            if self.end_at is not None and len(self.seen) == self.end_at[0]:
                self.end_at[1]()
            return step(trainer, model, inputs, *rest, **more)

        transformers.Trainer.training_step = noted

    def take(self) -> list[dict[str, Any]]:
        """What was seen since the last time."""
        found, self.seen, self.end_at = self.seen, [], None
        return found


def _learning(parameters: list[Any]) -> int:
    return sum(one.numel() for one in parameters if one.requires_grad)


def _digest(inputs: Any) -> str:
    """A checksum of all numbers of a batch, whatever its tensors are called."""
    if isinstance(inputs, Mapping):
        told = " ".join(sorted(map(_digest, inputs.values()))).encode()
    elif hasattr(inputs, "numpy"):
        told = f"{inputs.dtype} {tuple(inputs.shape)} ".encode() + inputs.detach().cpu().numpy().tobytes()
    else:
        told = repr(inputs).encode()
    return hashlib.sha256(told).hexdigest()[:24]


class Side:
    """A tree under proof, and the folders that its cases read from and write to."""

    def __init__(self, words: str, inputs: Path, out: Path) -> None:
        self.words, self.inputs, self.out = words, inputs, out
        self.steps = Steps()
        self.case = out / "none"
        self.recipes = out / "recipes"
        self.recipes.mkdir(parents=True, exist_ok=True)
        for name, values in TAKING_PART.items():
            self.write_recipe(name, values)

    @contextlib.contextmanager
    def of(self, case: str) -> Iterator[None]:
        """A folder and a cache of its own for a case; one within another leaves the other as it was."""
        before, seen = self.case, self.steps.take()
        self._enter(self.out / "cases" / case)
        try:
            yield
        finally:
            if noted := self.steps.take():
                self.keep(f"steps-{os.environ.get('RANK', 0)}.json", noted)
            self._enter(before)
            self.steps.seen = seen

    def _enter(self, case: Path) -> None:
        self.case = case
        self.case.mkdir(parents=True, exist_ok=True)
        os.environ["WARMSTART_CACHE"] = str(case / "cache")

    def path(self, name: str) -> str:
        """A file or an encoder among the inputs."""
        return str(self.inputs / name)

    def _found(self, value: Any) -> Any:
        """A value with the inputs that it names by their path."""
        if isinstance(value, Mapping):
            return {name: self._found(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._found(one) for one in value]
        return self.path(value) if isinstance(value, str) and value and (self.inputs / value).exists() else value

    def write_recipe(self, name: str, values: Mapping[str, Any]) -> str:
        """A recipe in the words of this side, as a file; JSON is YAML."""
        said = {key: value for key, value in values.items() if value is not None or key == "learn.epochs"}
        path = self.recipes / f"{name.replace(' ', '-')}.yaml"
        path.write_text(json.dumps(recipe_in(self.words, self._found(said)), indent=1), encoding="utf-8")
        return str(path)

    def fit(self, out: str = "run", **values: Any) -> Path:
        """Train by a recipe of old dotted keys into a folder of the case."""
        import warmstart

        recipe = self.write_recipe(f"{self.case.name} {out}", {**COMMON, **values})
        return Path(warmstart.fit(recipe, out=self.case / out).folder)

    def fitted(self, case: str) -> Path:
        """The run of a case that is a training; carried out where it was not asked for by itself."""
        run = self.out / "cases" / case / "run"
        if not run.is_dir():
            with self.of(case):
                self.fit(**fits()[case])
        return run

    def told(self, verb: str, *options: str) -> str:
        """What a command says on standard output; it is run in this process."""
        app = importlib.import_module(COMMAND[self.words]).app
        words = [verb, *options_in(self.words, verb, list(options))]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            app(words, standalone_mode=False)
        return said.getvalue()

    def ask(self, name: str, verb: str, *options: str) -> Any:
        """Keep what a command says as JSON in a file of the case."""
        said = self.told(verb, *options, "--json")
        try:
            found = json.loads(said)
        except ValueError:  # an answer a line
            found = [json.loads(line) for line in said.splitlines()]
        self.keep(f"{name}.json", found)
        return found

    def call(self, name: str, *given: Any, **values: Any) -> Any:
        """What a public name of warmstart gives for arguments in old words."""
        import warmstart

        return getattr(warmstart, name)(*given, **arguments_in(self.words, name, values))

    def command(self, verb: str, *options: str) -> list[str]:
        """The words that start a command in a process of its own."""
        return [sys.executable, "-m", COMMAND[self.words], verb, *options_in(self.words, verb, list(options))]

    def keep(self, name: str, value: Any) -> None:
        """Write a file of the case."""
        (self.case / name).write_text(json.dumps(value, indent=1, allow_nan=True), encoding="utf-8")

    def ended(self, step: int, how: Callable[[], None], **values: Any) -> str:
        """Train until something happens in a step; gives what the training said to that."""
        self.steps.end_at = (len(self.steps.seen) + step, how)
        try:
            self.fit(**values)
        except Exception as error:
            return str(getattr(error, "exit_code", type(error).__name__))
        finally:
            self.steps.end_at = None
        return "came to its end"

    def killed(self, step: int, **values: Any) -> int:
        """Train in a fork that is killed in a step; gives the signal that it ended by."""
        child = os.fork()
        if not child:
            try:
                self.ended(step, lambda: os.kill(os.getpid(), signal.SIGKILL), **values)
            finally:
                os._exit(70)
        return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def all_cases() -> dict[str, Callable[[Side], Any]]:
    """Every case in order: first those that fork, last those that start Ray."""
    trained = {name: _fit(name) for name in fits()}
    return {**FIRST, **trained, **LAST, **INNER}


def _fit(name: str) -> Callable[[Side], Any]:
    def do(side: Side) -> None:
        if not (side.case / "run").is_dir():  # an earlier case may have asked for it
            side.fit(**fits()[name])

    return do


def main() -> None:
    """Carry out the cases; what failed is told in `failed.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", choices=("old", "new"), required=True, help="the words that this tree knows")
    parser.add_argument("--tree", type=Path, required=True, help="the tree that must be the one imported")
    parser.add_argument("--inputs", type=Path, required=True, help="encoders and files; written if they are not there")
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
    side.steps.look_on()
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}
    known = all_cases()
    for name in json.loads(args.cases) if args.cases else (name for name in known if name not in INNER):
        started = sum(os.times()[:4])  # of processors, with those of children
        try:
            with side.of(name):
                known[name](side)
        except Exception:
            if "RANK" in os.environ:  # one of several processes, whose parent will tell
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
