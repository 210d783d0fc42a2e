"""Every crash point of fit, stages, labelling and sweeps, then many at once, on a simulated disk that may lose power.

A seed decides a schedule: `make proof-simulation SEED=7` runs it again. The bugs of `simulated_plants` must be found.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from common import finish, write_page
from simulated_jobs import JOBS, World
from simulated_plants import PLANTS
from simulated_schedules import Explorer, Violation

SCHEDULES = 100_000
MOST_FOR_A_PLANT = 1000
BATCH = 250
SHARES = {
    "study": 40, "model published anew": 20, "fit": 16, "labelling, object store": 10, "labelling": 8,
    "sweep": 2, "stages": 2, "stage removed": 2,
}  # fmt: skip
"""In how many of a hundred schedules each job is run: more often what is quick."""
CHOSEN = list(SHARES)
"""The jobs that are run."""
SHOWN = 10
DEADLINE = [math.inf]
"""After which nothing more is begun, in seconds since 1970."""
Task = tuple[str, str, int, int]
"""What is tried, on which job; the first seed and how many, or every which system call."""
Answer = tuple[Task, int, int, list[str]]
"""A task with how many were tried, how many points there are, and what went wrong."""


WORLD = World()


@cache
def explorer(job: str) -> Explorer:
    """What tries crashes on a job."""
    return Explorer(WORLD, JOBS[job])


def job_of(seed: int) -> str:
    """The job that a seed is about."""
    return random.Random(f"job {seed}").choices(CHOSEN, [SHARES[job] for job in CHOSEN])[0]


def run_seed(seed: int) -> list[Violation]:
    """What goes wrong in the schedule of a seed."""
    return explorer(job_of(seed)).at_random(seed)


def run(task: Task) -> Answer:
    """Carry out a task."""
    if time.time() > DEADLINE[0]:
        return task, 0, 0, []
    with WORLD.entered():
        return _run(task)


def _run(task: Task) -> Answer:
    kind, job, start, many = task
    violations: list[Violation | str] = []
    points = tried = 0
    if kind == "random":
        for seed in range(start, start + many):
            violations += [f"seed {seed}: {violation}" for violation in run_seed(seed)]
            tried += 1
    elif kind == "crashes":
        points = sum(call.writes for call in explorer(job).calls)
        for crash in explorer(job).crashes(many):
            violations += explorer(job).resumed(crash)
            tried += 1
    elif kind == "errors":
        cases = explorer(job).errors()
        points = len(cases)
        seen: set[tuple[str, str, str]] = set()
        for case in cases[::many]:
            violations += explorer(job).failed(*case, seen)
            tried += 1
    else:
        tried = planted(job)
    return task, tried, points, [str(violation) for violation in violations]


def planted(plant: str) -> int:
    """After how many schedules a planted bug is found; 0 where it is not."""
    for job in CHOSEN:
        explorer(job)  # what is expected is that of the code as it is
    with PLANTS[plant]():
        for seed in range(MOST_FOR_A_PLANT):
            if run_seed(seed):
                return seed + 1
    return 0


def tasks(schedules: int, share: float) -> Iterator[Task]:
    """All there is to do; of the single crash points and errors a share."""
    for plant in PLANTS:
        yield "plant", plant, 0, 0
    longest_first = sorted(CHOSEN, key=lambda job: SHARES[job])
    batches = [("random", "", seed, min(BATCH, schedules - seed)) for seed in range(0, schedules, BATCH)]
    early = len(batches) // 10  # so that a proof that is stopped has seen a bit of everything
    yield from (("crashes", job, 0, round(1 / share)) for job in longest_first)
    yield from batches[:early]
    yield from (("errors", job, 0, round(1 / share)) for job in reversed(longest_first))
    yield from batches[early:]


def sources() -> str:
    """A checksum of the code that is tried, and of what tries it."""
    here = Path(__file__).resolve().parent
    paths = sorted([*here.glob("simulat*.py"), *(here.parent / "src").rglob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def answers(listed: list[Task], processes: int, kept: Path | None) -> Iterator[Answer]:
    """Carry out all tasks; those whose answers were kept, of this very code, need not be again."""
    own = [sources(), CHOSEN]
    lines = kept.read_text(encoding="utf-8").splitlines() if kept and kept.is_file() else []
    done = [(tuple(task), *rest) for of, task, *rest in map(json.loads, lines) if of == own]
    yield from done
    left = [task for task in listed if task not in {answer[0] for answer in done}]
    gc.freeze()  # torch and all else that was imported need not be looked through again and again
    gc.set_threshold(50_000)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for answer in pool.imap_unordered(run, left):
            if kept and answer[1]:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([own, *answer]) + "\n")
            yield answer


def explore(schedules: int, share: float, processes: int, kept: Path | None = None) -> dict[str, Any]:
    """Try everything; returns the figures."""
    listed = list(tasks(schedules, share))
    crash_points: dict[str, int] = {}
    tried: Counter[str] = Counter()
    planted_found: dict[str, int] = {}
    left_out = [f"{kind} of {job}" for job in JOBS if job not in CHOSEN for kind in ("crashes", "errors")]
    violations: list[str] = []
    started = time.monotonic()
    for done, (task, count, points, wrong) in enumerate(answers(listed, processes, kept), 1):
        kind, job, _, _ = task
        print(f"{done} of {len(listed)}: {kind} {job} {count}, {len(wrong)} violations", file=sys.stderr, flush=True)
        for line in wrong:
            print(line, file=sys.stderr, flush=True)
        violations += wrong
        tried[kind] += count if kind != "plant" else 0
        if kind == "crashes" and count:
            crash_points[job] = points
        if kind != "random" and not count:
            left_out.append(f"{kind} of {job}")
        if kind == "plant":
            planted_found[job] = count
    return {
        "crash_points": sum(crash_points.values()),
        "crash_points_by_job": crash_points,
        "crash_states": tried["crashes"],
        "failed_calls": tried["errors"],
        "schedules": tried["random"],
        "violations": len(violations),
        "planted_found_after": planted_found,
        "left_out": left_out,
        "seconds": round(time.monotonic() - started),
        "shown": violations[:SHOWN],
    }


def main() -> None:
    """Prove and report, or replay one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=SCHEDULES, help="random schedules")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    parser.add_argument("--seed", type=int, help="run the schedule of one seed, and say what goes wrong")
    parser.add_argument("--share", type=float, default=1.0, help="of the single crash points that are tried")
    parser.add_argument("--jobs", default="; ".join(SHARES), help="those to run (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which nothing more is begun")
    parser.add_argument("--keep", type=Path, help="a file of what was done, with which a stopped proof goes on")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at once")
    args = parser.parse_args()
    CHOSEN[:] = args.jobs.split("; ")
    if args.seed is not None:
        with WORLD.entered():
            violations = run_seed(args.seed)
        finish({"seed": args.seed, "job": job_of(args.seed), "violations": [str(one) for one in violations]})
        return
    DEADLINE[0] = time.time() + 60 * args.minutes
    figures = explore(args.n, args.share, args.processes, args.keep)
    for line in figures.pop("shown"):
        print(line)
    if args.write:
        given = [argument for argument in sys.argv[1:] if argument not in ("--write", "--keep", str(args.keep))]
        options = [argument if " " not in argument else f"'{argument}'" for argument in given]
        command = f'make proof-simulation ARGS="{" ".join(options)}"' if options else "make proof-simulation"
        write_page("simulation", "Every crash point", command, _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    points = figures["crash_points_by_job"]
    rows = "".join(f"| {job} | {points[job]:,} |\n" for job in JOBS if job in points)
    stopped = ""
    if figures["left_out"] or figures["schedules"] < SCHEDULES:
        not_run = f", and without the {', the '.join(figures['left_out'])}" if figures["left_out"] else ""
        run = f"{figures['schedules']:,} of {SCHEDULES:,} random schedules"
        stopped = f"This is a part of the proof, with {run}{not_run}.\n\n"
    found = "".join(
        f"| {plant} | {count or 'NOT FOUND'} |\n" for plant, count in figures["planted_found_after"].items()
    )
    return (
        f"{figures['violations']:,} violations of what is promised in {figures['crash_points']:,} single crash points "
        f"and {figures['schedules']:,} random schedules of crashes.\n\n"
        "The code that publishes and records is run on a simulated disk in memory. It keeps what was flushed; of the "
        "rest, a power cut loses names and bytes, each by itself and in any order: files are old, torn, full of zeros "
        "or have holes. Processes take turns at system calls, which may fail, kill their process or be the last ones "
        "before a power cut. Training, Ray and the model are replaced by a few lines; claims, checkpoints, stages, "
        "manifests, shards and journals are warmstart's own code, called by `run_recipe`, the labelling driver and the "
        "sweep's workers as ever. The object store shows new files late in its listings.\n\n"
        "After every crash, whatever is called finished must be complete, and whatever was reported as done must still "
        "be there. Then the same command is run again, must end, and must leave the bytes of an undisturbed run.\n\n"
        f"{stopped}**{figures['violations']} violations** in\n\n"
        f"- **{figures['crash_points']:,}** single crash points, all of the jobs below: before each call that writes. "
        f"What a crash can leave there, in up to 31 outcomes each, are {figures['crash_states']:,} different states of "
        "the disk, not counting those that differ only in what unfinished folders hold;\n"
        f"- {figures['failed_calls']:,} system calls that fail one at a time, with ENOSPC, EIO and EINTR in turn, "
        "writes once with half of their bytes written and once with none;\n"
        f"- **{figures['schedules']:,}** random schedules with one to three crashes, failing calls, and up to two "
        "drivers, each with workers, at once.\n\n"
        f"| job | crash points |\n| --- | ---: |\n{rows}\n"
        "Five bugs are planted on purpose, to see that the proof can fail:\n\n"
        f"| planted bug | found in schedule |\n| --- | ---: |\n{found}\n"
        "`make proof-simulation SEED=7` runs one of the random schedules again. The proof puts the disk under Python's "
        "`os` and `open`, for itself alone: a real run passes through no code of the proof, and so pays nothing for it."
    )


if __name__ == "__main__":
    main()
