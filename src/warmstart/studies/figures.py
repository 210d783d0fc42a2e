"""The figures of a study, kept beside it: a page can be checked, written anew and gone on with without the runs.

One file per cell, one line per measurement. Scores of test rows are kept, never their text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import RunError
from warmstart.evaluation.run_result import RunResult
from warmstart.evaluation.statistics import scored
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
    """CPU time of training and predicting; NaN where it is not known."""
    dev: float | None = None
    """The headline on dev rows, where there are any."""
    precision: str = ""
    """The floating-point precision it was trained with; unknown of a peer, and of figures from before it was kept."""

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

    def keep(self, result: RunResult, key: str, cpu_seconds: float, precision: str = "") -> None:
        """Add a result, in place of an older one of the same method, seed and precision, or of unknown precision."""
        own: Values = {
            "method": result.variant,
            "seed": result.seed,
            "key": key,
            "precision": precision,
            **{name: getattr(result, name) for name in FIELDS},
            **({} if (dev := result.metrics.get("dev", {}).get(result.headline)) is None else {"dev": dev}),
            "seconds": round(result.seconds, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "scores": _short(scored(result.scores).tolist()) if not result.failed or result.headline else "",
        }
        make_folder(self.path.parent)
        with hold_lock(self.path.with_name(f".{self.path.name}.lock")):
            others = [line for line in self._lines() if not _replaces(own, line)]
            lines = sorted([*others, own], key=lambda line: (line["method"], line["seed"], _precision(line)))
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))

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


def _replaces(line: Values, older: Values) -> bool:
    """Whether a line is a newer measurement of the same; machines differ in precision, and each keeps its own."""
    same = (line["method"], line["seed"]) == (older["method"], older["seed"])
    return same and _precision(older) in ("", _precision(line))


def _precision(line: Values) -> str:
    return str(line.get("precision", ""))


def _result(line: Values) -> KeptResult:
    scores = [float(score) for score in line["scores"]]
    return KeptResult(
        variant=line["method"],
        seed=line["seed"],
        folder=Path(),
        part="test",
        metrics={},
        cpu_seconds=math.nan if line["cpu_seconds"] is None else line["cpu_seconds"],
        dev=line.get("dev"),
        precision=_precision(line),
        of=tuple(map(str, range(len(scores)))),
        quality=tuple(scores),
        **{name: line[name] for name in FIELDS},
    )


def _short(scores: Sequence[float]) -> str | list[float]:
    """Scores of 0 and 1 as digits, others rounded."""
    if set(scores) <= {0.0, 1.0}:
        return "".join(str(int(score)) for score in scores)
    return [round(score, 4) for score in scores]
