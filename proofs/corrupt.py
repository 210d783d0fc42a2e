"""Random damage to a checkpoint: never taken in silence. Each is named, and an older one is used or the run stops.

Damage is a file deleted, cut short, one bit flipped, or two files swapped, in any file of a checkpoint. A resumed run
must say which file it was and then end equal to the bit to the run left alone, or stop with an exit code of ours.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from common import arguments, finish, write_page
from tiny_fit import TinyFit, draw, kill_when
from warmstart.errors import RunError
from warmstart.training.checkpoint_state import load_state
from warmstart.training.checkpoints import CheckpointStore

KINDS = ("delete", "cut", "flip", "swap")


def damage(folder: Path, random: Random) -> tuple[str, str]:
    """Damage one checkpoint and say how, and which file."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    kind, path = random.choice(KINDS), random.choice(files)
    content = path.read_bytes()
    if kind == "delete":
        path.unlink()
    elif kind == "cut":
        path.write_bytes(content[: random.randrange(len(content))])
    elif kind == "flip":
        at = random.randrange(len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :])
    else:
        other = random.choice([one for one in files if one != path])
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    return kind, path.name


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 500, "corruptions")
    random = draw(1)
    tried = silent = 0
    kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        tiny = TinyFit(base)
        run = base / "run"
        assert kill_when(tiny.start(run), lambda: len(list(run.glob("checkpoints/step-*"))) >= 2, 0.01)
        kept = base / "kept"
        shutil.copytree(run / "checkpoints", kept)
        older, newest = sorted(path.name for path in kept.glob("step-*"))[-2:]
        identity = _identity(kept / newest)
        load_state(kept / newest)  # an undamaged one opens
        for _ in range(args.n):
            trial = base / "trial"
            shutil.rmtree(trial, ignore_errors=True)
            shutil.copytree(kept, trial)
            before = {path.name: path.read_bytes() for path in (trial / newest).iterdir()}
            kind, _ = damage(trial / newest, random)
            after = {path.name: path.read_bytes() for path in (trial / newest).iterdir()}
            if before == after:  # two equal files swapped: no damage was done
                continue
            tried += 1
            kinds[kind] += 1
            silent += _silent(trial, newest, older, identity)
    figures: dict[str, Any] = {"tried": tried, "silent": silent, **kinds}
    if args.write:
        write_page("corrupt", "Damaged checkpoints", "make proof-corrupt", _page(figures))
    finish(figures)


def _identity(path: Path) -> dict[str, Any]:
    from warmstart.storage.artifacts import verify

    found: dict[str, Any] = verify(path)["identity"]
    return found


def _silent(trial: Path, newest: str, older: str, identity: dict[str, Any]) -> bool:
    """Whether the damage went unnoticed: the damaged one was taken, or passed over without a word."""
    try:
        path, passed = CheckpointStore(trial, identity).newest()
    except RunError as error:
        return newest not in str(error)
    return path is None or path.name != older or not any(newest in line for line in passed)


def _page(figures: dict[str, Any]) -> str:
    return (
        f"**{figures['silent']} of {figures['tried']}** random corruptions of the newest checkpoint went unnoticed. "
        "In all other cases, the damaged file was named and the previous checkpoint was used.\n\n"
        "| damage | tried |\n| --- | ---: |\n" + "\n".join(f"| {kind} | {figures[kind]} |" for kind in KINDS)
    )


if __name__ == "__main__":
    main()
