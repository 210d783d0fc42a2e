"""Random damage to finished output and changes to its input: each is named by `warmstart verify`, and none is missed.

Output is a run, the stage of a store, a model folder and a labelled corpus. Damage is a file deleted, cut short,
emptied, grown, one bit flipped, two files swapped, one replaced by a link, one put there, or a folder deleted. A
changed input must be named too, and a rerun must refuse it. The command's speed is compared with that of `sha256sum`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from typer.testing import CliRunner

import warmstart
from common import finish, write_page
from exactly_once import ENVIRONMENT
from small import reviews
from tiny_fit import TinyFit
from warmstart.cli.main import app
from warmstart.data.source import Source
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.label_corpus import _Plan, label
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.manifest import close, close_group, finished
from warmstart.deploy.label.shards import write_json
from warmstart.deploy.label.worker import ShardWorker, model_fingerprint
from warmstart.errors import WarmstartError
from warmstart.runtime.progress import silent
from warmstart.storage.artifacts import checksum

KINDS = ("deleted", "cut", "emptied", "grown", "flipped", "swapped", "linked", "added", "folder deleted")
KINDS_OF = {
    "input": ("grown", "flipped", "deleted", "added"),
    "corpus": tuple(kind for kind in KINDS if kind != "linked"),
}
"""Where it is not all of them: a corpus may lie behind links."""
TARGETS = ("run", "stage", "model", "corpus", "input")
EDITABLE = {"README.md", "lock"}
"""What may change at any time: the model card, and the lock of the process that labels."""


def make_run(folder: Path) -> tuple[Path, Path]:
    """A run of a pretraining and a fine-tuning, with its checkpoints, and the folder of its stage in the store."""
    tiny = TinyFit(folder)
    training = {"learning_rate": 1e-3, "epochs": 1, "batch_size": 16, "precision": "fp32"}
    pretrain = {"max_tokens": 32, "steps": 2, "training": {"precision": "fp32", "batch_size": 8}}
    warmstart.fit(
        model=tiny.encoder,
        train=str(tiny.train),
        test=str(tiny.test),
        out=folder / "run",
        stages=[{"pretrain": pretrain}],
        training=training,
        checkpoints={"every_steps": 2, "when_finished": "keep"},
    )
    [stage] = [path for path in (folder / "cache" / "stages").glob("pretrain-*") if path.is_dir()]
    return folder / "run", stage


def make_corpus(run: Path, inputs: Path, out: Path) -> None:
    """A labelled corpus of two groups, with rows set aside, by the code of a driver and a worker without Ray."""
    inputs.mkdir()
    for number in range(3):
        lines = [json.dumps({"text": text}) for text, _ in reviews(40, start=40 * number)]
        lines[7] = '{"text": 7}'
        (inputs / f"{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out.mkdir()
    job = LabelJob(str(run), model_fingerprint(str(run)), Folder(str(inputs)), Folder(str(out)), _source(inputs))
    plan = _Plan(job, job.folder.files(), [], 20, 2, silent)
    plan.settle()
    worker = ShardWorker(plan.work)
    for name, _ in plan.groups:
        group = plan._planned(name)
        for shard in group.shards:
            worker(name, shard)
        close_group(job.out, group, finished(job.out, group), plan.about)
    close(job.out, [name for name, _ in plan.groups], plan.about)


def _source(inputs: Path) -> Source:
    return Source((str(inputs),))


def files_of(folder: Path) -> list[Path]:
    """The files that must stay as they are."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in EDITABLE)
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def damage(folder: Path, kind: str, random: Random) -> list[str]:
    """Do damage; gives the names that must be named, none where nothing changed."""
    paths = files_of(folder)
    path = random.choice(paths)
    content = path.read_bytes()
    names = [str(path.relative_to(folder))]
    if kind == "deleted":
        path.unlink()
    elif kind == "cut":
        path.write_bytes(content[: random.randrange(len(content))])
    elif kind == "emptied":
        path.write_bytes(b"")
    elif kind == "grown":
        path.write_bytes(content + random.choice((b"\n", b" ", b"\0", content)))
    elif kind == "flipped":
        at = random.randrange(len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :])
    elif kind == "swapped":
        other = random.choice([one for one in paths if one.read_bytes() != content])
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
        names.append(str(other.relative_to(folder)))
    elif kind == "linked":
        path.rename(path.with_name(".moved"))
        path.symlink_to(path.with_name(".moved"))
    elif kind == "added":
        parents = sorted({one.parent for one in _published(folder)})
        path = random.choice(parents) / f"more{path.suffix}"
        path.write_bytes(content)
        names = [str(path.relative_to(folder))]
    else:
        parent = random.choice(sorted({one.parent for one in paths} - {folder}) or [folder])
        names = [str(one.relative_to(folder)) for one in paths if one.is_relative_to(parent)]
        names.append(str(parent.relative_to(folder)))
        shutil.rmtree(parent)
    return names


def _published(folder: Path) -> list[Path]:
    """Files of folders into which nothing is written later: all but a run's own, where reports and exports go."""
    paths = files_of(folder)
    run = {one.parent for one in paths if one.name == "recipe.yaml"}
    return [one for one in paths if one.parent not in run and (one.parent / "manifest.json").is_file()] or paths


def verified(folder: Path, inputs: Path | None) -> list[str]:
    """What the command names; where a whole folder is unknown to it, that is its one line."""
    more = ["--file", str(inputs)] if inputs else []
    done = CliRunner().invoke(app, ["verify", str(folder), "--json", *more])
    if isinstance(done.exception, WarmstartError):
        return [str(done.exception)]
    lines: list[str] = json.loads(done.stdout)["damages"]
    assert done.exit_code == (6 if lines else 0), done
    return lines


class Proof:
    """Finished output, copied, damaged and verified again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run, stage = make_run(folder)
        self.kept = folder / "kept"
        shutil.copytree(run, self.kept / "run")
        shutil.copytree(stage, self.kept / "stage")
        shutil.copytree(run / "model", self.kept / "model")
        make_corpus(self.kept / "run", self.kept / "input", self.kept / "corpus")
        self.unnamed: list[str] = []
        for name in TARGETS[:-1]:
            inputs = self.kept / "input" if name == "corpus" else None
            assert verified(self.kept / name, inputs) == [], "what is whole is called whole"

    def trial(self, target: str, kind: str, random: Random) -> None:
        """One damage; what is not named is noted."""
        trial = self.folder / "trial"
        shutil.rmtree(trial, ignore_errors=True)
        shutil.copytree(self.kept, trial, copy_function=shutil.copy2)
        names = damage(trial / target, kind, random)
        corpus = target in ("corpus", "input")
        lines = verified(trial / ("corpus" if corpus else target), trial / "input" if target == "input" else None)
        named = [any(name in line for line in lines) for name in names]
        # A damaged manifest does not tell what else is damaged, and a missing folder is one line.
        one_is_enough = kind == "folder deleted" or any(name.endswith("manifest.json") for name in names)
        told = any(named) if one_is_enough else all(named)
        if not told or (target == "input" and not self._refused(trial)):
            self.unnamed.append(f"{target} {kind} {names[:3]}: {lines[:3]}")

    def _refused(self, trial: Path) -> bool:
        """Whether labelling again, with the changed input, ends with an error of ours."""
        try:
            label(
                self.kept / "run", str(trial / "input"), trial / "corpus", rows_per_shard=20, files_per_group=2,
                retry_timeout=0,
            )  # fmt: skip
        except WarmstartError:
            return True
        return False


def speed(folder: Path, megabytes: int, rounds: int) -> dict[str, float]:
    """Seconds that the command takes to read a large labelled corpus, beside `sha256sum` over the same files."""
    out = folder / "kept" / "corpus"
    groups = sorted(path.parent for path in out.glob("*/manifest.json"))
    shards = [path for group in groups for path in sorted(group.glob("*[0-9].parquet"))]
    for path in shards:
        _enlarge(path, megabytes * 1_000_000 // len(shards))
    place = Folder(str(out))
    for group in groups:
        manifest = json.loads((group / "manifest.json").read_bytes())
        manifest["files"] = {name: checksum(group / name) for name in manifest["files"]}
        write_json(place, f"{group.name}/manifest.json", manifest)
    about = json.loads((out / "plan.json").read_bytes())
    close(place, list(about["groups"]), {name: about[name] for name in about if name not in ("groups", "left_out")})
    paths = [str(path) for path in files_of(out)]
    command = [sys.executable, "-m", "warmstart.cli.main", "verify", str(out)]
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_seconds(["sha256sum", *paths]))
        ours.append(_seconds(command))
    size = sum(Path(path).stat().st_size for path in paths) / 1e6
    return {
        "megabytes": round(size),
        "rounds": rounds,
        "verify_mb_s": round(size / statistics.median(ours)),
        "sha256sum_mb_s": round(size / statistics.median(theirs)),
        "speed": round(statistics.median(theirs) / statistics.median(ours), 2),
    }


def _enlarge(path: Path, size: int) -> None:
    """Add a column of random bytes to the answers of a shard, and write their checksum into its record."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    noise = pa.array([os.urandom(size // table.num_rows) for _ in range(table.num_rows)], pa.binary())
    pq.write_table(table.append_column("noise", noise), path, compression="none", use_dictionary=False)
    name = f"{path.parent.name}/records/{path.stem}.json"
    place = Folder(str(path.parent.parent))
    record = json.loads(place.read(name) or b"")
    record["files"][path.name] = checksum(path)
    write_json(place, name, record)


def _seconds(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.monotonic() - began


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="damages (default 200)")
    parser.add_argument("--megabytes", type=int, default=1000, help="of the corpus that is timed (default 1000)")
    parser.add_argument("--rounds", type=int, default=5, help="of timing (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="another one does other damage")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    random = Random(args.seed)
    counts = dict.fromkeys(TARGETS, 0)
    with tempfile.TemporaryDirectory() as name:
        proof = Proof(Path(name))
        for number in range(args.n):
            target = TARGETS[number % len(TARGETS)]
            kinds = KINDS_OF.get(target, KINDS)
            proof.trial(target, kinds[number // len(TARGETS) % len(kinds)], random)
            counts[target] += 1
        for line in proof.unnamed:
            print(line, file=sys.stderr)
        figures: dict[str, Any] = {"damages": args.n, "unnamed": len(proof.unnamed), **counts}
        figures |= speed(proof.folder, args.megabytes, args.rounds)
    if args.write:
        write_page("verify", "Damage to finished output", "make proof-verify", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    rows = "".join(f"| {target} | {figures[target]} |\n" for target in TARGETS)
    return (
        f"**{figures['unnamed']} of {figures['damages']}** random damages to finished output, or changes to its input, "
        "went unnamed by `warmstart verify`. Files are deleted, cut short, emptied, grown, replaced by a link, swapped "
        "or added, one bit of them is flipped, or their folder is deleted; manifests and records are among them. An "
        "input file that was changed, removed or added is named as well, and labelling again refuses it.\n\n"
        f"| damaged | times |\n| --- | ---: |\n{rows}\n"
        f"A labelled corpus of {figures['megabytes']:,} MB is verified at {figures['verify_mb_s']} MB/s, including the "
        f"start of the command; `sha256sum` reads the same files at {figures['sha256sum_mb_s']} MB/s. That is "
        f"{figures['speed']} times its speed (the medians of {figures['rounds']} rounds, one after the other)."
    )


if __name__ == "__main__":
    main()
