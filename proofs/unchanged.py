"""An older commit and this tree, run through the same cases, give the same numbers to the bit.

For a release that renames and regroups. Every case is written once, in the words of the older commit, and translated
by the tables in `unchanged_words`; each side is one process. Weights, optimizer states, the batch of every training
step, predictions, metrics, vectors and plans are compared. With `--plant` one bit of a weight and one number of a
metrics file are changed first: the proof must then fail and name both.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "proofs")]

from common import finish, write_page
from unchanged_compare import SKIPPED, SKIPPED_FILES, Compared, compare_case

CACHE = ROOT / ".cache" / "unchanged"
PRINTED = 60
"""Kinds of differences that are printed."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="315e177", help="the commit to compare with")
    parser.add_argument("--new-tree", type=Path, default=ROOT, help="the tree to compare (default: this one)")
    parser.add_argument("--new-words", choices=("old", "new"), default="new", help="the words of that tree")
    parser.add_argument("--n", type=int, help="only the first N cases")
    parser.add_argument("--only", action="append", nargs="+", metavar="NAME", help="only this case; can be repeated")
    parser.add_argument("--reuse-base", action="store_true", help="reuse the base side of the last run")
    parser.add_argument("--compare-only", action="store_true", help="reuse both sides of the last run")
    parser.add_argument("--plant", action="store_true", help="plant two differences first, which must be found")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    return parser.parse_args()


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A worktree of a commit, removed afterwards."""
    place = CACHE / "tree"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "remove", "--force", str(place)], check=False, capture_output=True)
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([*git, "prune"], check=True)
    subprocess.run([*git, "add", "--detach", str(place), commit], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run([*git, "remove", "--force", str(place)], check=True)


def run_side(tree: Path, words: str, name: str, cases: list[str] | None) -> None:
    """Run the cases with a tree, into a folder of that name.

    Both sides write to the same path, which is renamed afterwards, so that no path in an output differs.
    """
    out, result = CACHE / "side", CACHE / name
    for folder in (out, result):
        shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, str(ROOT / "proofs" / "unchanged_side.py"), "--words", words, "--tree", str(tree)]
    command += ["--inputs", str(CACHE / "inputs"), "--out", str(out)]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("WARMSTART_", "RANK"))}
    env |= {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"}
    with (CACHE / f"{name}.log").open("w") as log:
        done = subprocess.run(
            [*command, *(["--cases", json.dumps(cases)] if cases else [])], env=env, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        sys.exit(f"{tree} ({words} words) failed: see {CACHE / name}.log")
    out.rename(result)


def wanted(args: argparse.Namespace) -> list[str] | None:
    """The cases to run; None for all."""
    if not args.only and args.n is None:
        return None
    from unchanged_cases import fits
    from unchanged_verbs import FIRST, LAST

    known = [*FIRST, *fits(), *LAST]
    only = [" ".join(words) for words in args.only or []]  # a name may be of several words
    if unknown := [name for name in only if name not in known]:
        sys.exit(f"--only {unknown[0]}: expected one of\n  " + "\n  ".join(known))
    return [name for name in known if not only or name in only][: args.n]


@contextlib.contextmanager
def planted() -> Iterator[list[str]]:
    """Change one bit of a weight and one number of a metrics file of the new side for a while; yields the two files."""
    cases = CACHE / "now" / "cases"
    weights = sorted(cases.glob("*/run/model/model.safetensors"))[0]
    numbers = sorted(cases.glob("*/run/metrics.json"))[-1]
    before = {path: path.read_bytes() for path in (weights, numbers)}
    damaged = bytearray(before[weights])
    damaged[-2] ^= 1
    weights.write_bytes(bytes(damaged))
    metrics = json.loads(before[numbers])
    part = metrics[next(iter(metrics))]
    part[next(iter(part))] += 2**-50
    numbers.write_text(json.dumps(metrics), encoding="utf-8")
    try:
        yield [str(path.relative_to(cases)) for path in before]
    finally:
        for path, content in before.items():
            path.write_bytes(content)


def compare() -> dict[str, Compared]:
    """Compare every case; one that failed on either side is not equal."""
    sides = [CACHE / name for name in ("base", "now")]
    failed = [json.loads((side / "failed.json").read_text(encoding="utf-8")) for side in sides]
    names = list(json.loads((sides[0] / "seconds.json").read_text(encoding="utf-8")))
    inner = [path.name for path in sorted((sides[0] / "cases").iterdir()) if path.name not in names]
    results = {}
    for name in (*names, *inner):
        results[name] = compare_case(*(side / "cases" / name for side in sides))
        errors = {side.name: one[name] for side, one in zip(sides, failed, strict=True) if name in one}
        if errors:
            told = [f"{side} failed: {error.strip().splitlines()[-1]}" for side, error in errors.items()]
            results[name] = Compared(unequal=told)
    return results


def print_differences(results: dict[str, Compared]) -> int:
    """Print the differences, those alike in many files once; returns how many there are."""
    groups: dict[str, list[str]] = {}
    for name, case in results.items():
        for line in case.unequal:
            file, _, rest = line.partition(": ")
            what = re.sub(r"\d+", "N", f"{Path(file).name}: {rest.partition(': base ')[0]}")
            groups.setdefault(what, []).append(f"{name}: {line}")
    for lines in list(groups.values())[:PRINTED]:
        print(lines[0] + (f" (and {len(lines) - 1:,} like it)" if len(lines) > 1 else ""), file=sys.stderr)
    if len(groups) > PRINTED:
        print(f"and {len(groups) - PRINTED:,} kinds more", file=sys.stderr)
    return sum(map(len, groups.values()))


def caught(files: list[str]) -> int:
    """How many of the planted differences are found and named."""
    count = 0
    for path in files:
        case, _, file = path.partition("/")
        told = compare_case(*(CACHE / side / "cases" / case for side in ("base", "now"))).unequal
        count += any(line.startswith(f"{file}: ") for line in told)
    return count


def main() -> None:
    """Prove and report."""
    args = options()
    started = time.monotonic()
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = (CACHE / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # proofs share a folder
    cases = wanted(args)
    if not args.compare_only:
        if not args.reuse_base:
            shutil.rmtree(CACHE / "inputs", ignore_errors=True)
            with checked_out(args.base) as tree:
                run_side(tree, "old", "base", cases)
        run_side(args.new_tree.resolve(), args.new_words, "now", cases)
    with planted() if args.plant else contextlib.nullcontext():
        results = compare()
    figures: dict[str, Any] = {
        "base": args.base,
        "cases": len(results),
        "files": sum(case.files for case in results.values()),
        "tensors": sum(case.tensors for case in results.values()),
        "numbers": sum(case.numbers for case in results.values()),
        "unequal": print_differences(results),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "processor_minutes": round(sum(os.times()[:4]) / 60, 1),
    }
    with planted() as files:  # every run shows that the comparison can fail
        figures |= {"planted": len(files), "caught": caught(files)}
    if args.write:
        write_page("unchanged", "The same numbers under other names", _command(args), _page(figures, results))
    finish(figures)
    sys.exit(1 if figures["unequal"] or figures["caught"] < figures["planted"] else 0)


def _command(args: argparse.Namespace) -> str:
    return f"make proof-unchanged BASE={args.base}"


def _page(figures: dict[str, Any], results: dict[str, Compared]) -> str:
    equal = sum(not case.unequal for case in results.values())
    rows = "\n".join(
        f"| {name} | {case.files:,} | {case.tensors:,} | {case.numbers:,} | "
        f"{'equal' if not case.unequal else f'**{len(case.unequal)} unequal**'} |"
        for name, case in results.items()
    )
    skipped = [
        f"- `{key}` in {'all files' if file == '*' else f'`{file}`'}: {why}" for (file, key), why in SKIPPED.items()
    ]
    skipped += [f"- `{pattern}`: {why}" for pattern, why in SKIPPED_FILES.items()]
    return (
        f"Commit {figures['base']} and this tree, run through the same {figures['cases']} cases on the same tiny "
        "encoders and data files: every task, every training technique, stages, seeds, sweeps, two processes, "
        "stopped and resumed trainings, and every command but `doctor`. Each recipe is written once, in the words of "
        "the older commit, and translated.\n\n"
        f"**{equal} of {figures['cases']} cases are equal to the bit**: {figures['files']:,} files with "
        f"{figures['tensors']:,} tensors, {figures['numbers']:,} numbers in all. Weights and optimizer states are "
        "compared byte by byte; of every training step a checksum of its batch, which shows that rows come in the same "
        "order, and the learning rate and trainable size of each parameter group; metrics, predictions, vectors, "
        "findings and plans number by number.\n\n"
        f"The comparison can fail: of {figures['planted']} differences planted afterwards, one bit of a weight and one "
        f"number of a metrics file, it found {figures['caught']}.\n\n"
        f"| case | files | tensors | numbers | |\n| --- | ---: | ---: | ---: | --- |\n{rows}\n\n"
        "Not compared:\n\n" + "\n".join(skipped)
    )


if __name__ == "__main__":
    main()
