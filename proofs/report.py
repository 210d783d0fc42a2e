"""Reports of real runs, opened in Chromium at two widths and in two themes.

Nothing may be fetched or said on the console, the page must not be wider than the screen, a file stays under 3 MB, and
axe-core may find nothing serious. Pictures of every page are kept to be looked at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import warmstart
from browser import THEMES, WIDTHS, Seen, chromium, look, need_axe
from common import ROOT, arguments, finish, weights, write_page
from warmstart.recipe import make_recipe
from warmstart.report.page import write_report

PLACE = Path(os.environ.get("REPORTS") or ROOT / ".cache" / "proof-report")
LARGEST = 3_000_000
QUICK: dict[str, Any] = {"epochs": 1, "max_steps": 40, "batch_size": 16}
RUNS: dict[str, dict[str, Any]] = {
    "classify": {"set": "banking77", "window": {"max_tokens": 48}, "learning_rate": 5e-4},
    "tag": {"set": "wnut17", "window": {"max_tokens": 64}, "learning_rate": 2e-4},
    "span": {"set": "xquad", "window": {"max_tokens": 192}, "learning_rate": 1e-4},
    "rank": {"set": "wikiqa", "window": {"max_tokens": 48}, "learning_rate": 1e-4},
}
"""A run for each of four tasks, short: what is looked at is the page."""
TEST_ROWS = 300


def data_of(name: str) -> dict[str, Any]:
    """Recipe fields of a set's data; test rows beyond the first some hundred are left out to save time."""
    import task_sets

    if name == "banking77":
        folder = task_sets.OPEN / "banking77" / "banking_data"
        train, test = folder / "train.csv", folder / "test.csv"
        return {"data.train": str(train), "data.test": _some(test), "data.columns": {"label": "category"}}
    found = dict(task_sets.SETS[name].files("part"))
    if name in {"wikiqa", "xquad"}:
        found["data.test"] = _some(Path(found["data.test"]))
    return found


def _some(path: Path) -> str:
    """The first rows of a file with a line a row, spread over it where it is sorted."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    head, rows = (lines[:1], lines[1:]) if path.suffix == ".csv" else ([], lines)
    kept = rows[:: max(1, len(rows) // TEST_ROWS)] if path.suffix == ".csv" else rows[:TEST_ROWS]
    out = PLACE / f"some-{path.name}"
    out.write_text("".join(head + kept), encoding="utf-8")
    return str(out)


def make_run(task: str) -> Path:
    """A short run of a task, diagnosed where that can be done; used again where it is there."""
    folder, said = PLACE / task, RUNS[task]
    if not (folder / "metrics.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        training = {
            f"training.{name}": value for name, value in {**QUICK, "learning_rate": said["learning_rate"]}.items()
        }
        layers: dict[str, Any] = {"layers.lr_decay": 0.9}
        if task != "rank":  # whose model has no head to begin with
            layers |= {"layers.unfreeze": "gradual", "layers.unfreeze_every": 5}
        window = {f"window.{name}": value for name, value in said["window"].items()}
        fields = {**data_of(said["set"]), **training, **layers, **window, "task.name": task}
        warmstart.fit(make_recipe({"model": weights("minilm"), **fields}), out=folder)
        command = [sys.executable, "-m", "warmstart.cli.main", "diagnose", str(folder)]
        subprocess.run(command, check=False, capture_output=True)
    return folder


def main() -> None:
    """Make the runs, write and open the reports, and say what was seen."""
    args = arguments(__doc__ or "", len(RUNS), "tasks")
    axe = need_axe("a report")
    PLACE.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, int, list[Seen]]] = []
    with chromium() as browser:
        for task in list(RUNS)[: args.n]:
            page = write_report(make_run(task))
            looks = []
            for width in WIDTHS:
                for theme in THEMES:
                    looks.append(look(browser, page, width, theme, axe, PLACE / f"{task}-{width}-{theme}.png"))
            rows.append((task, page.stat().st_size, looks))
    for task, size, looks in rows:
        for one in looks:
            assert size < LARGEST, (task, size)
            assert [*one.messages, *one.requests, *one.grave] == [], (task, asdict(one))
            assert one.overflow <= 0, (task, asdict(one))
    if args.write:
        write_page("report", "Reports in a browser", "make proof-report", told(rows))
    views = sum(len(looks) for _, _, looks in rows)
    finish({"pages": len(rows), "views": views, "largest": max(size for _, size, _ in rows), "faults": 0})


def told(rows: list[tuple[str, int, list[Seen]]]) -> str:
    """The page of results."""
    lines = []
    for task, size, looks in rows:
        counts = [sum(len(getattr(one, name)) for one in looks) for name in ("messages", "requests")]
        grave, every = (sum(len(getattr(one, name)) for one in looks) for name in ("grave", "violations"))
        wider = max(0, *(one.overflow for one in looks))
        cells = [
            f"{task}, {RUNS[task]['set']}",
            f"{size / 1000:,.0f} kB",
            len(looks),
            *counts,
            f"{wider} px",
            grave,
            every,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    table = "\n".join(lines)
    views = sum(len(looks) for _, _, looks in rows)
    return f"""\
**{views} of {views}** views of the reports of {len(rows)} short runs on real data are clean: nothing is fetched,
nothing is logged to the console, the page is never wider than the screen, no file reaches 3 MB, and axe-core finds no
serious or critical violation.

| run | size | views | console messages | requests | wider than the screen | serious or critical | any violation |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{table}

Each page is opened from its file in headless Chromium, at 1280 and at 390 pixels, in light and dark mode, without a
network; width and accessibility are checked with all sections open. The runs are of {QUICK["max_steps"]} steps: what is
measured is the page, not the model."""


if __name__ == "__main__":
    main()
