"""A disk that fills up at any size, and a folder that cannot be written to: a clear exit code, and then a resume.

The training runs on a size-limited tmpfs in a mount namespace of its own (`unshare -rm`). When the disk is full the
run must end with an exit code of ours and no traceback; after room is made it resumes and ends equal to the bit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import arguments, finish, write_page

INSIDE = "WARMSTART_PROOF_DISK"


def in_namespace(n: int) -> dict[str, Any]:
    """Run this proof again inside a private mount namespace, where a tmpfs may be mounted."""
    command = ["unshare", "-rm", sys.executable, __file__, "--n", str(n)]
    done = subprocess.run(command, env={**os.environ, INSIDE: "1"}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"unshare -rm failed: {done.stderr[-2000:]}")
    import json

    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def prove(n: int) -> dict[str, Any]:
    """Fill disks of many sizes."""
    from tiny_fit import TinyFit, result

    figures = {"sizes": 0, "clear": 0, "resumed_bit_equal": 0}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        tiny = TinyFit(base)
        assert tiny.run(base / "alone") == 0
        expected = result(base / "alone")
        needed = sum(path.stat().st_size for path in (base / "alone").rglob("*") if path.is_file())
        disk = base / "disk"
        disk.mkdir()
        for number in range(n):
            size = int(needed * (0.1 + 0.85 * number / max(n - 1, 1)))
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)], check=True)
            run = disk / "run"
            code = tiny.run(run)
            figures["sizes"] += 1
            figures["clear"] += code == 9
            subprocess.run(["mount", "-o", f"remount,size={needed * 10}", str(disk)], check=True)
            figures["resumed_bit_equal"] += tiny.run(run) == 0 and result(run) == expected
            subprocess.run(["umount", str(disk)], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(disk)], check=True)
        figures["read_only_code"] = tiny.run(disk / "run")
        subprocess.run(["umount", str(disk)], check=True)
    return figures


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 20, "sizes of the disk")
    if os.environ.get(INSIDE):
        finish(prove(args.n))
        return
    figures = in_namespace(args.n)
    if args.write:
        write_page("full-disk", "A disk that is full", "make proof-full-disk", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    return (
        f"On disks of {figures['sizes']} sizes, each too small, **{figures['clear']} of {figures['sizes']}** runs "
        "ended with exit code 9 and a message that names the disk. After space was freed, "
        f"**{figures['resumed_bit_equal']} of {figures['sizes']}** resumed and ended bit-identical to an uninterrupted "
        f"run. In a folder that cannot be written to, the exit code is {figures['read_only_code']}."
    )


if __name__ == "__main__":
    main()
