"""The figures of a study, kept beside it: a page can be checked, written anew and gone on with without the runs.

One file per cell, one line per measurement. Scores of test rows are kept, never their text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import RunError
from warmstart.evaluation.run_result import RunResult
from warmstart.options import Values
from warmstart.storage.files import write_text
from warmstart.storage.folders import make_folder
from warmstart.storage.json_files import read_text
from warmstart.storage.locks import hold_lock

FIELDS = ("headline", "value", "steps", "seconds", "failed")


@dataclass(frozen=True)
class KeptResult(RunResult):
    """A result whose run need not be there."""

    of: tuple[str, ...] = ()
    """Names of the test rows."""
    quality: tuple[float, ...] = ()
    """The score of each."""
    cpu_seconds: float = 0.0
    """CPU time of training and predicting."""

    @property
    def row_names(self) -> list[str]:  # type: ignore[override]
        """As in `RunResult`."""
        return list(self.of)

    @property
    def scores(self) -> NDArray[np.float64]:
        """As in `RunResult`."""
        return np.array(self.quality)


@dataclass(frozen=True)
class FigureFile:
    """The figures of one cell."""

    path: Path

    def read(self) -> dict[tuple[str, str], KeptResult]:
        """Each result by its method and key, seeds apart in the key."""
        return {(line["method"], line["key"]): _result(line) for line in self._lines()}

    def keep(self, result: RunResult, key: str, cpu_seconds: float) -> None:
        """Add a result, in place of an older one of the same method and seed."""
        own = {
            "method": result.variant,
            "seed": result.seed,
            "key": key,
            **{name: getattr(result, name) for name in FIELDS},
            "seconds": round(result.seconds, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "scores": _short(result.scores.tolist()) if not result.failed or result.headline else "",
        }
        make_folder(self.path.parent)
        with hold_lock(self.path.with_name(f".{self.path.name}.lock")):
            kept = {_name(line): line for line in self._lines()}
            kept[_name(own)] = own
            write_text(self.path, "".join(json.dumps(kept[name]) + "\n" for name in sorted(kept)))

    def _lines(self) -> list[Values]:
        if not self.path.is_file():
            return []
        lines = []
        for number, line in enumerate(read_text(self.path, RunError).splitlines(), 1):
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise RunError(
                    f"{self.path}:{number}: not JSON ({error}); remove the line to measure it again"
                ) from None
        return lines


def _name(line: Values) -> tuple[str, int]:
    return line["method"], line["seed"]


def _result(line: Values) -> KeptResult:
    scores = [float(score) for score in line["scores"]]
    return KeptResult(
        variant=line["method"],
        seed=line["seed"],
        folder=Path(),
        part="test",
        metrics={},
        cpu_seconds=line["cpu_seconds"],
        of=tuple(map(str, range(len(scores)))),
        quality=tuple(scores),
        **{name: line[name] for name in FIELDS},
    )


def _short(scores: Sequence[float]) -> str | list[float]:
    """Scores of 0 and 1 as digits, others rounded."""
    if set(scores) <= {0.0, 1.0}:
        return "".join(str(int(score)) for score in scores)
    return [round(score, 4) for score in scores]
