"""Figures of ended runs, kept in docs/results/figures/: a table can be checked, written anew and gone on with where the
runs themselves are not. Scores and names of test rows are kept, never their text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import ROOT
from warmstart.evaluation.run_result import RunResult
from warmstart.studies.figures import KeptResult

FOLDER = ROOT / "docs" / "results" / "figures"
NOT_KEPT = ("folder", "task")
"""Fields of a result that only its run can use: the scores of rows, which need the task, are kept themselves."""


def settings(of: Any) -> str:
    """What names the settings a figure is of, wherever their files lie: a figure of others is not used."""
    text = re.sub(r'"/[^"]*/([^/"]*)"', r'"\1"', json.dumps(of, sort_keys=True))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(name: str) -> dict[str, Any]:
    """What is kept under a name; nothing, where nothing is."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(name: str, figures: dict[str, Any]) -> None:
    """Keep figures under a name, in place of what was there; one run a line."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(figures[key])}" for key in sorted(figures))
    staging = FOLDER / f".{name}.staging"
    staging.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    staging.replace(FOLDER / f"{name}.json")


def by_parts(name: str, parts: Mapping[str, Callable[[], dict[str, Any]]], keep: bool) -> dict[str, dict[str, Any]]:
    """The figures of each of these parts of a measurement.

    Args:
        keep: Keep each part under the name when it has ended, and give those as well that were kept before.
    """
    found = read(name) if keep else {}
    for part, measure in parts.items():
        found[part] = measure()
        if keep:
            write(name, found)
    return found


def flat(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of all parts together."""
    return {name: value for part in found.values() for name, value in part.items()}


def read_rows(name: str, asked: dict[str, str]) -> list[RunResult]:
    """The rows kept under a name, by variant and seed.

    Args:
        asked: The settings of each variant, as `settings` names them.
    """
    found = read(name)
    names = tuple(found.pop("rows", ()))
    return [
        KeptResult(folder=Path(), of=names, quality=tuple(quality), **row)
        for _, (made, row, quality) in sorted(found.items())
        if asked.get(row["variant"]) == made
    ]


def keep_rows(name: str, rows: Sequence[RunResult], asked: dict[str, str]) -> None:
    """Keep these rows with those that are already kept; all must have been measured on the same test rows."""
    found = read(name)
    for row in rows:
        names = [str(name) for name in row.row_names]
        if names != found.setdefault("rows", names):
            raise SystemExit(f"{row.folder}: measured on other test rows than the runs kept in {FOLDER / name}.json")
        fields = {key: getattr(row, key) for key in RunResult.__dataclass_fields__ if key not in NOT_KEPT}
        quality = [int(one) if one in (0, 1) else round(one, 6) for one in row.scores.tolist()]
        found[f"{row.variant} {row.seed}"] = [asked[row.variant], fields, quality]
    write(name, found)
